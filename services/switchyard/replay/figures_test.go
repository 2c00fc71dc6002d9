package replay

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/sim"
	"github.com/switchyard/switchyard/pkg/sim/routing"
)

const ms = time.Millisecond

// answered has two experts in one layer. Its steps take exactly what the simulator
// says on one host, and 1 ms with 10 µs a row for messages.
func answered(alpha, beta float64) *Result {
	r := &Result{Shape: routing.Shape{Layers: 1, Experts: 2, TopK: 1}, layerIndex: map[int]int{3: 0}}
	for i := range 20 {
		rows := 10 + i
		compute := time.Duration(float64(rows) * (alpha + 2*beta) * float64(time.Second))
		messages := ms + time.Duration(10*rows)*time.Microsecond
		l := Layer{Loads: []uint32{uint32(rows - 4), 4}}
		l.Total, l.By[ledger.ExpertCompute], l.By[ledger.Messages] = compute+messages, compute, messages
		r.Steps = append(r.Steps, Step{Number: uint64(i), At: time.Duration(i) * time.Second, Rows: rows, Layers: []Layer{l}})
	}
	return r
}

func TestCompare(t *testing.T) {
	p, err := profiles.Open("a6000-mixtral")
	if err != nil {
		t.Fatal(err)
	}
	p.Time = profiles.Printed
	r := answered(p.Alpha.Value, p.Beta.Value)
	m := r.Messages()
	if math.Abs(m.Fixed-1e-3) > 1e-8 || math.Abs(m.PerRow-1e-5) > 1e-9 {
		t.Errorf("messages take %+v", m)
	}
	s := sim.Defaults(sim.Model{Name: "two", Shape: r.Shape, Profile: p})
	s.Hosts = 1
	of := elastic.DefaultSettings()
	of.Scaling = "static"
	c, err := r.Compare(s, of, m)
	if err != nil || math.Abs(c.Difference) > 1e-3 || c.Sim <= 0 || c.Messages <= 1 {
		t.Errorf("%+v, %v", c, err)
	}
	of.Scaling = "none"
	if _, err := r.Compare(s, of, m); err == nil {
		t.Error("an unknown scaling")
	}
}

// Tokens whose making a change overlaps are counted apart.
func TestGaps(t *testing.T) {
	r := &Result{
		Answers: []Answer{{Times: []time.Duration{0, 10 * ms, 100 * ms, 2000 * ms, 2010 * ms}}},
		Changes: []Change{{At: 50 * ms, Serving: 60 * ms}, {At: 55 * ms}},
	}
	if w := r.windows(); len(w) != 1 || w[0] != (window{50 * ms, 310 * ms}) {
		t.Errorf("windows %v", w)
	}
	steady, moving := r.Gaps()
	if steady.Count != 2 || steady.P99 != 10 || moving.Count != 2 || moving.P50 != 1900 {
		t.Errorf("steady %+v, rescaling %+v", steady, moving)
	}
}

// A reaction is the first change behind a border that gives an expert more.
func TestReactions(t *testing.T) {
	requests := []Request{{Domain: 0}, {Domain: 1}, {Domain: 1}, {Domain: 0}}
	r := &Result{
		Took:    time.Second,
		Answers: []Answer{{Sent: 0}, {Sent: 100 * ms}, {Sent: 200 * ms}, {Sent: 300 * ms}},
		Changes: []Change{
			{At: 50 * ms, More: 1, Serving: 60 * ms}, {At: 110 * ms, Fewer: 1, Serving: 120 * ms}, {At: 150 * ms, More: 1, Serving: 170 * ms}, {At: 310 * ms, Serving: 1},
		},
	}
	got := r.Reactions(requests)
	if len(got) != 1 || got[0] != (Reaction{50 * ms, 70 * ms}) {
		t.Errorf("%v", got)
	}
}

func TestMovesAndPicture(t *testing.T) {
	r := &Result{Shape: routing.Shape{Layers: 1, Experts: 2, TopK: 1}, layerIndex: map[int]int{3: 0}, Changes: []Change{{Layer: 3, More: 1}}}
	for i, warm := range [][]int{{1, 1}, {3, 0}, {1, 1}} {
		r.Frames = append(r.Frames, Frame{At: time.Duration(i) * time.Second, Rows: []uint64{5, uint64(i)}, Warm: warm})
	}
	if m := r.Moves(); m != (Moves{Gained: 1, Slept: 1, Woke: 1, Most: 3}) {
		t.Errorf("%+v", m)
	}
	picture, err := r.Picture(r.Liveliest(), "layer")
	if err != nil || !bytes.Contains(picture, []byte("<svg")) {
		t.Errorf("%.40s, %v", picture, err)
	}
	if _, err := r.Picture(1, "none"); err == nil {
		t.Error("a layer that is not there")
	}
}
