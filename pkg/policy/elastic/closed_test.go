package elastic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// served is a model whose steps take as long as its layers do under the plan in force, on a
// machine whose times scatter. It is no copy of what the scaler believes: what a message and a
// row really take is set apart from what the profile says.
type served struct {
	core    *Core
	known   plan.Known
	rng     *rand.Rand
	now     float64
	due     float64
	told    float64
	number  uint64
	times   *loads.Times
	weights [][]float64 // of each layer's experts
	seed    uint64
	device  cost.Device // what an access really takes
	message float64     // what a message really takes
	fixed   float64     // what a layer takes beside them
	scatter float64     // of a layer's time, as a logarithm
}

const (
	servedLayers, servedExperts, servedHosts = 8, 16, 8
	servedBytes                              = 352 << 20
)

func newServed(t testing.TB, scaling string, seed uint64, profile cost.Timer) *served {
	t.Helper()
	s := printed()
	s.Scaling = scaling
	s.Unjudged = true
	s.Takes = &cost.Device{Timer: profile}
	m := testModel(servedLayers, servedExperts)
	m.ExpertBytes, m.TopK = servedBytes, 2
	core, err := New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	y := &served{
		core: core, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), times: loads.NewTimes(testHash, "attention-a"),
		known: plan.Known{Model: m.Model, Settings: plan.Settings{Policy: plan.Static, Grouping: plan.ByHost, Replicas: 1}, InForce: map[int]*plan.Layer{}},
	}
	for h := range servedHosts {
		y.known.Hosts = append(y.known.Hosts, plan.Host{ID: fmt.Sprintf("host-%04d", h), Budget: 48e9})
	}
	y.turnTo()
	y.decide(t)
	return y
}

// turnTo makes other experts the popular ones.
func (y *served) turnTo() {
	y.weights = nil
	for range servedLayers {
		w := make([]float64, servedExperts)
		for i, e := range y.rng.Perm(servedExperts) {
			w[e] = math.Pow(float64(i+1), -0.8)
		}
		y.weights = append(y.weights, w)
	}
}

// counts are the rows of each expert, two experts a row.
func (y *served) counts(layer, rows int) []int {
	n := make([]int, servedExperts)
	for range rows {
		w := slices.Clone(y.weights[layer])
		for range 2 {
			at := y.rng.Float64() * sum(w)
			e := 0
			for ; e < len(w)-1 && at >= w[e]; e++ {
				at -= w[e]
			}
			n[e]++
			w[e] = 0
		}
	}
	return n
}

// step runs a microbatch through all layers, and returns what it took.
func (y *served) step(t testing.TB, rows int) (took float64) {
	t.Helper()
	drift := 0.1 * (math.Sin(y.now*0.9+float64(y.seed)) + math.Sin(y.now*0.31) + math.Sin(y.now*2.3))
	for l := range servedLayers {
		counts := y.counts(l, rows)
		seconds, sent := y.layer(l, counts)
		seconds = (seconds + y.fixed + float64(sent)*y.message) * math.Exp(drift+y.scatter*y.rng.NormFloat64())
		messages := (y.fixed + float64(sent)*y.message) * math.Exp(drift)
		y.times.Add(l, loads.Took{Rows: rows, Dispatches: sent, Total: duration(seconds), Messages: duration(min(seconds, messages))})
		y.gate(t, l, rows, counts)
		y.now += seconds
		took += seconds
	}
	if y.now >= y.told+0.2 {
		y.told = y.now
		for _, s := range y.times.Take(loads.TimesEvery) {
			y.number++
			s.Number = y.number
			y.observe(t, s)
		}
	}
	if y.now >= y.due {
		y.due = y.now + 2*Cadence
		y.decide(t)
	}
	return took
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

func (y *served) observe(t testing.TB, s *pb.LoadSample) {
	t.Helper()
	if err := y.core.Observe(y.now, s); err != nil {
		t.Fatal(err)
	}
}

func (y *served) gate(t testing.TB, layer, rows int, counts []int) {
	t.Helper()
	step := &pb.StepLoad{Owner: "attention-a", Epoch: 1, Rows: uint32(rows)}
	for e, n := range counts {
		if n > 0 {
			step.Expert, step.Count = append(step.Expert, uint32(e)), append(step.Count, uint32(n))
		}
	}
	y.number++
	y.observe(t, &pb.LoadSample{
		Version: schemas.Version, Model: testHash, Host: "gate-a", Layer: uint32(layer), SpanMs: 10, Number: y.number,
		Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
	})
}

// layer is what the busiest host takes for rows that gates divide by the plan in force, and the
// messages.
func (y *served) layer(number int, counts []int) (seconds float64, messages int) {
	l := y.known.InForce[number]
	on := make([][]int, servedExperts)
	for _, f := range l.Functions {
		for _, p := range f.Placements {
			h := slices.IndexFunc(y.known.Hosts, func(h plan.Host) bool { return h.ID == p.Host })
			if p.Want == warm {
				for _, e := range f.Experts {
					on[e] = append(on[e], h)
				}
			}
		}
	}
	var asked []divide.Expert
	for e, n := range counts {
		if n > 0 {
			slices.Sort(on[e])
			divide.HomeFirst(on[e], e, servedHosts)
			asked = append(asked, divide.Expert{Rows: n, Hosts: on[e]})
		}
	}
	shares := divide.Even(nil, asked, 0)
	if l.Division != nil {
		shares = divide.New(plan.Takes(l.Division).Device(1), 1, servedHosts).Least(nil, asked)
	}
	busy, sent := make([]float64, servedHosts), map[int]bool{}
	for _, s := range shares {
		busy[s.Host] += y.device.Seconds(cost.Access{Bytes: servedBytes, Rows: s.Rows})
		sent[s.Host] = true
	}
	return slices.Max(busy), len(sent)
}

func (y *served) decide(t testing.TB) {
	t.Helper()
	d, _, err := y.core.Decide(y.now, y.known)
	if err != nil {
		t.Fatal(err)
	}
	for _, lp := range d.Layers {
		checked, err := plan.Rules{MoELayers: y.known.Model.MoELayers, Experts: servedExperts}.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		y.known.InForce[int(lp.Layer)] = checked
	}
}

// serve runs steps of so many rows for so long, and returns the mean seconds of one. One of ten
// steps is a prompt's.
func (y *served) serve(t testing.TB, seconds float64, rows int) (mean float64) {
	t.Helper()
	n := 0
	for end := y.now + seconds; y.now < end; n++ {
		of := max(1, rows+y.rng.IntN(3)-1)
		if n%10 == 9 {
			of += 30
		}
		mean += y.step(t, of)
	}
	return mean / float64(n)
}

// regime is what really takes the time of layers, beside what the scaler's profile says of it.
type regime struct {
	name    string
	profile cost.Timer
	device  cost.Timer
	message float64
	// most is the most that a step may take in the mean, as a part of what it takes with the
	// static plan: in steady load, in a burst, after other experts have become popular.
	most [3]float64
}

// serveBoth has a load served with a static plan and by a policy, and returns the times of
// steps as parts of the static plan's.
func (g regime) serveBoth(t *testing.T, scaling string, seed uint64, length float64) (parts [3]float64) {
	t.Helper()
	var took [2][3]float64
	for i, scaling := range []string{"static", scaling} {
		y := newServed(t, scaling, seed, g.profile)
		y.device, y.message, y.fixed, y.scatter = cost.Device{Timer: g.device}, g.message, 1e-3, 0.3
		y.serve(t, length/2, 3)
		took[i][0] = y.serve(t, length, 3)
		took[i][1] = y.serve(t, length, 12)
		y.turnTo()
		took[i][2] = y.serve(t, length, 6)
	}
	for i := range parts {
		parts[i] = took[1][i] / took[0][i]
	}
	return parts
}

// Where devices dominate, the loop makes steps shorter within the burst that needs it; where
// messages do, or the profile is wrong, it makes them no longer.
func TestClosedLoop(t *testing.T) {
	if testkit.Race {
		t.Skip("minutes of computing, side by side as in TestSideBySide")
	}
	dear, cheap := cost.Printed{Alpha: 1146e-6}, cost.Printed{Alpha: 57e-6}
	for _, g := range []regime{
		{"devices dominate", dear, dear, 60e-6, [3]float64{0.9, 0.85, 0.95}},
		{"messages dominate", cheap, cheap, 150e-6, [3]float64{1.005, 1.005, 1.005}},
		{"profile says too much", dear, cheap, 150e-6, [3]float64{1.03, 1.01, 1.03}},
		{"profile says too little", cheap, dear, 150e-6, [3]float64{1.02, 1.02, 1.02}},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			parts := g.serveBoth(t, "moeless+lean", 1, 12)
			t.Logf("steps take %.3f of the static plan's time", parts)
			for i, p := range parts {
				if p > g.most[i] {
					t.Errorf("part %d: steps take %.3f of the static plan's time, at most %.3f is wanted", i, p, g.most[i])
				}
			}
		})
	}
}
