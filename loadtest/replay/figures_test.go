package replay

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
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
	if math.Abs(m.Of(0)-1e-3) > 1e-8 || math.Abs(m.Of(100)-2e-3) > 1e-8 {
		t.Errorf("messages take %+v", m)
	}
	s := sim.Defaults(sim.Model{Name: "two", Shape: r.Shape, Profile: p})
	s.Hosts = 1
	of := elastic.DefaultSettings()
	of.Scaling = "static"
	c, err := r.Compare(s, of, Known{Messages: m, Slower: 1})
	if err != nil || math.Abs(c.Difference) > 1e-3 || c.Sim <= 0 || c.Messages <= 1 {
		t.Errorf("%+v, %v", c, err)
	}
	of.Scaling = "none"
	if _, err := r.Compare(s, of, Known{Messages: m, Slower: 1}); err == nil {
		t.Error("an unknown scaling")
	}
}

// served is two requests whose steps take what Predict takes them to: 3 ms of layers, 2 ms
// and 0.1 ms a row around them, 1 ms between steps, 0.5 ms in and 0.25 ms out. The second
// request comes while the first one's second step is under way.
func served() *Result {
	r := &Result{Answers: []Answer{{ID: "a", Sent: 10 * ms}, {ID: "b", Sent: 20 * ms}}}
	add := func(at time.Duration, parts ...ledger.Part) {
		s := Step{At: at, Parts: parts, Layers: []Layer{{}}}
		for _, p := range parts {
			s.Rows += p.Rows
		}
		s.Took = 5*ms + time.Duration(s.Rows)*ms/10
		s.Layers[0].Total = 3 * ms
		for _, p := range parts {
			if p.Request == "canary" {
				continue
			}
			a := &r.Answers[p.Request[0]-'a']
			for range p.Tokens {
				a.Tokens, a.Times = append(a.Tokens, 7), append(a.Times, s.end()+ms/4)
			}
		}
		r.Steps = append(r.Steps, s)
	}
	add(10500*time.Microsecond, ledger.Part{Request: "a", Rows: 4, Tokens: 1}) // ends at 15.9
	add(16900*time.Microsecond, ledger.Part{Request: "a", Rows: 1, Tokens: 1}) // ends at 22.0
	add(23*ms, ledger.Part{Request: "a", Rows: 1, Tokens: 1}, ledger.Part{Request: "b", Rows: 3})
	add(29400*time.Microsecond, ledger.Part{Request: "b", Rows: 2, Tokens: 1}, ledger.Part{Request: "canary", Rows: 1, Tokens: 1})
	return r
}

func TestPredict(t *testing.T) {
	r := served()
	a := r.Around()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("a step of a row", a.Step.At(1), 2.1e-3)
	near("a step of four", a.Step.At(4), 2.4e-3)
	near("the gap", a.Gap, 1e-3)
	near("delivery", a.Delivery, 0.25e-3)
	a.Intake = 0.5e-3 // the only step that waited for its request is the first
	live, got := r.Latencies(), r.Predict([]float64{3e-3, 3e-3, 3e-3, 3e-3}, Messages{}, a)
	if got.Requests != 2 || math.Abs(got.TTFT.Mean-live.TTFT.Mean) > 1e-6 || math.Abs(got.TPOT.Mean-live.TPOT.Mean) > 1e-6 || live.TPOT.Mean == 0 {
		t.Errorf("predicted %+v, was %+v", got, live)
	}
	// Layers that take twice as long: the first tokens come 3 ms later, and 3 ms more for
	// each step that was before.
	slow := r.Predict([]float64{6e-3, 6e-3, 6e-3, 6e-3}, Messages{}, a)
	near("the slower TTFT", slow.TTFT.Mean-live.TTFT.Mean, (3+4*3)/2.0)
	near("the slower TPOT", slow.TPOT.Mean-live.TPOT.Mean, 3)
	// One step of four takes 10 ms more: the first request's first token comes later where it is
	// its step, the second one's wherever it is, as all four steps are before it.
	a.Beyond = []float64{10e-3, 0, 0, 0}
	late := r.Predict([]float64{3e-3, 3e-3, 3e-3, 3e-3}, Messages{}, a)
	near("the TTFT with a slow step", late.TTFT.Mean-live.TTFT.Mean, (2.5+10)/2)
	near("the requests", float64(late.Requests), 2)
}

// What each step took beyond the means adds up to nothing, and is where it was.
func TestBeyond(t *testing.T) {
	r := served()
	r.Steps[2].Took += 8 * ms
	k := Known{Messages: r.Messages(), Around: r.Around()}
	all, sum := r.beyond(k.Messages, k.Around), 0.0
	for i, s := range all {
		if sum += s; i != 2 && s > all[2]/2 {
			t.Errorf("step %d took %v s more than the means, the slow one %v", i, s, all[2])
		}
	}
	if math.Abs(sum) > 3e-3 {
		t.Errorf("all together took %v s more than the means", sum)
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

func TestCurve(t *testing.T) {
	var c, other Curve
	if c.At(3) != 0 {
		t.Error("nothing takes time")
	}
	for _, p := range [][2]float64{{1, 1}, {1, 3}, {100, 10}, {120, 20}} {
		c.add(int(p[0]), p[1])
	}
	other.add(1, 8)
	for _, tc := range []struct {
		name       string
		of         Curve
		rows, want float64
	}{
		{"a mean", c, 1, 2}, {"another", c, 110, 15}, {"between", c, 55.5, 8.5}, {"beyond", c, 219, 28}, {"one point", other, 50, 8},
		{"together", c.with(other), 1, 4}, {"and the other way", other.with(c), 1, 4}, {"not below nothing", Curve{{1, 10, 1}, {1, 20, 9}}, 1, 0},
	} {
		if got := tc.of.At(tc.rows); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Hosts that compute longer than is simulated do so by a step's rows.
func TestLateByRows(t *testing.T) {
	r := served()
	r.Steps[0].Layers[0].By[ledger.ExpertCompute] = 3 * ms // 4 rows
	r.Steps[1].Layers[0].By[ledger.ExpertCompute] = ms     // a row
	c := r.late([]float64{1e-3, 1e-3, 0, 0})
	if few, many := c.At(1), (Messages{Late: c}).Of(4); few != 0 || many < 1e-3 {
		t.Errorf("a row takes %v s longer, four %v", few, many)
	}
}
