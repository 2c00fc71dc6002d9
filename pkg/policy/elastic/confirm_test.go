package elastic

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// gate sends samples of rows for the first expert of layer 0.
type gate struct {
	id     string
	number uint64
}

func (g *gate) tell(t *testing.T, c *Core, now float64, rows uint32) {
	t.Helper()
	g.number++
	err := c.Observe(now, &pb.LoadSample{
		Version: schemas.Version, Model: testHash, Host: g.id, SpanMs: 10, Number: g.number, Source: pb.LoadSource_LOAD_SOURCE_GATE,
		Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: rows, Expert: []uint32{0}, Count: []uint32{rows}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counted is a core that hosts have told of no rows, with two layers.
func counted(t *testing.T) *Core {
	t.Helper()
	c, err := New(printed(), testModel(2, 4))
	if err != nil {
		t.Fatal(err)
	}
	c.Computed(0, 500)
	return c
}

// A gate's rows count once hosts have computed as many, few of them at once, and not at all if
// nobody computes them.
func TestConfirm(t *testing.T) {
	const few, many = 50, 1_000_000
	for _, tc := range []struct {
		name     string
		rows     uint32
		computed float64 // of each layer, a second later
		taken    [2]bool // at once, and in the end
	}{
		{"few", few, 0, [2]bool{true, true}}, {"many, computed", 2000, 2000, [2]bool{false, true}},
		{"many, half of them computed", 2000, 1000, [2]bool{false, false}}, {"a million", many, 2000, [2]bool{false, false}},
	} {
		c, g := counted(t), gate{id: "gate-a"}
		g.tell(t, c, 1, tc.rows)
		at := c.counts.Taken == 1
		for now := 2.0; now < 8; now++ {
			c.Computed(now, 500+2*tc.computed)
		}
		doubts := c.Doubts()
		if end := c.counts.Taken == 1; at != tc.taken[0] || end != tc.taken[1] || end == (len(doubts) == 1) || end != (c.layers[0].gates.any) {
			t.Errorf("%s: taken at once %v, in the end %v; doubts %v", tc.name, at, end, doubts)
		}
		for _, d := range doubts {
			if d.Gate != "gate-a" || d.Rows != float64(tc.rows) || !strings.Contains(d.Error(), "gate gate-a tells of") || c.Counts().Refused[BadRows] != 1 {
				t.Errorf("%s: %v", tc.name, d)
			}
		}
	}
}

// A gate that tells what hosts compute waits for nothing, though hosts tell it a second later;
// what another one makes up beside it counts for nothing.
func TestConfirmFlow(t *testing.T) {
	c, honest, forged := counted(t), gate{id: "gate-a"}, gate{id: "gate-x"}
	const rows, seconds, warm = 300, 60, 10
	for i := range seconds {
		now, before := float64(i+1), c.counts.Taken
		honest.tell(t, c, now, rows)
		if i > warm && c.counts.Taken == before {
			t.Errorf("second %d: the honest gate's waits", i)
		}
		forged.tell(t, c, now, 1<<20)
		c.Computed(now+0.5, 500+2*rows*float64(i+1))
	}
	if n := len(c.Doubts()); c.counts.Taken != seconds || n < seconds-confirmWithin-1 {
		t.Errorf("%d samples taken of %d, %d doubted", c.counts.Taken, seconds, n)
	}
	if rate := c.layers[0].counted(seconds)[0]; rate > 2*rows {
		t.Errorf("%v rows a second", rate)
	}
}

// As long as no host says what it computes there is nothing to go by, and a gate that is not
// here is refused at once.
func TestUnconfirmed(t *testing.T) {
	c, err := New(printed(), testModel(2, 4))
	if err != nil {
		t.Fatal(err)
	}
	g := gate{id: "gate-a"}
	g.tell(t, c, 1, 1<<20)
	if c.counts.Taken != 1 {
		t.Errorf("%+v", c.Counts())
	}
	c.Here(1, nil, map[string]bool{"gate-b": true})
	if err := c.Observe(1, &pb.LoadSample{
		Version: schemas.Version, Model: testHash, Host: "gate-a", SpanMs: 10, Number: 2, Source: pb.LoadSource_LOAD_SOURCE_GATE,
		Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: 1, Expert: []uint32{0}, Count: []uint32{1}}},
	}); err == nil || !strings.Contains(err.Error(), "gate gate-a is not among the members") {
		t.Errorf("refused with %v", err)
	}
}

// So many samples wait as the model's layers need, and what is beyond is given up and told.
func TestHeld(t *testing.T) {
	c, g := counted(t), gate{id: "gate-a"}
	for range 2*heldPerLayer + 3 {
		g.tell(t, c, 1, 1_000_000)
	}
	if held, doubts := len(c.confirmation.held), c.Doubts(); held != 2*heldPerLayer || len(doubts) != 3 {
		t.Errorf("%d samples wait, and %d are told", held, len(doubts))
	}
}
