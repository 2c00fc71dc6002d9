package elastic

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// One decision on a whole model: loads are Zipf's and change each time, so that
// every layer is scaled and placed anew.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct {
		layers, experts, hosts int
		grouping               plan.Grouping
	}{
		{8, 16, 8, plan.ByHost}, {61, 64, 1000, plan.ByHost}, {61, 256, 100, plan.ByHost}, {61, 256, 1000, plan.ByHost}, {61, 256, 1000, plan.ByExpert},
	} {
		for _, scaling := range []string{"moeless", "eplb", "moeless+lean"} {
			b.Run(fmt.Sprintf("scaling=%s/layers=%d/experts=%d/hosts=%d/grouping=%s", scaling, size.layers, size.experts, size.hosts, size.grouping), func(b *testing.B) {
				y := newFleetOf(b, scaling, size.layers, size.experts, size.hosts, size.grouping)
				// Dear rows, so that policies that decide by accesses have copies to make.
				y.core.Takes(cost.Device{Timer: cost.Printed{Alpha: 1e-3}})
				y.decide(b)
				for b.Loop() {
					b.StopTimer()
					y.rows(b)
					b.StartTimer()
					d, verdicts := y.decided(b)
					b.StopTimer()
					y.carryOut(b, d, verdicts)
					b.StartTimer()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N*size.layers), "ms/layer")
				b.ReportMetric(float64(y.warm)/float64(size.layers), "replicas/layer")
				b.ReportMetric(float64(y.functions), "functions")
			})
		}
	}
}

// large is a scaler with a fleet and the plan in force.
type large struct {
	core      *Core
	now       float64
	turn      int
	known     plan.Known
	numbers   uint64
	warm      int
	functions int
}

// newFleetOf has hosts with room for twice the model, and more.
func newFleetOf(t testing.TB, scaling string, layers, experts, hosts int, by plan.Grouping) *large {
	t.Helper()
	s := printed()
	s.Scaling = scaling
	m := testModel(layers, experts)
	m.ExpertBytes = 44 << 20
	core, err := New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	y := &large{core: core, known: plan.Known{Model: m.Model, Settings: plan.Settings{Grouping: by, Replicas: 1}}}
	slots := max(40, 2*layers*experts/hosts)
	for h := range hosts {
		y.known.Hosts = append(y.known.Hosts, plan.Host{ID: fmt.Sprintf("host-%04d", h), Budget: uint64(slots) * m.ExpertBytes})
	}
	return y
}

// steps are in a second.
const steps = 10

// rows are of another ten minutes, in which other experts are hot.
func (y *large) rows(t testing.TB) {
	t.Helper()
	y.turn++
	y.numbers++
	y.now += 600
	var of []*pb.StepLoad
	for _, l := range y.known.Model.MoELayers {
		step := &pb.StepLoad{Owner: "attention-a"}
		for e := range y.known.Model.Experts {
			n := uint32(65536 / math.Pow(float64((e*37+y.turn*11+l)%y.known.Model.Experts+1), 0.8))
			step.Expert, step.Count, step.Rows = append(step.Expert, uint32(e)), append(step.Count, n), step.Rows+n
		}
		of = append(of, step)
	}
	for i := range steps {
		for at, l := range y.known.Model.MoELayers {
			y.step(t, y.now-1+float64(i)/steps, l, y.numbers*steps+uint64(i), of[at])
		}
	}
}

// step is told of a layer by a gate.
func (y *large) step(t testing.TB, when float64, layer int, number uint64, step *pb.StepLoad) {
	t.Helper()
	err := y.core.Observe(when, &pb.LoadSample{
		Version: schemas.Version, Model: testHash, Host: "gate-a", Layer: uint32(layer), SpanMs: 10, Number: number,
		Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (y *large) decide(t testing.TB) {
	t.Helper()
	d, verdicts := y.decided(t)
	y.carryOut(t, d, verdicts)
}

func (y *large) decided(t testing.TB) (*plan.Decision, []Verdict) {
	t.Helper()
	d, verdicts, err := y.core.Decide(y.now, y.known)
	if err != nil {
		t.Fatal(err)
	}
	return d, verdicts
}

func (y *large) carryOut(t testing.TB, d *plan.Decision, verdicts []Verdict) {
	t.Helper()
	y.warm, y.functions, y.known.InForce = 0, 0, map[int]*plan.Layer{}
	for i, lp := range d.Layers {
		checked, err := plan.Rules{MoELayers: y.known.Model.MoELayers, Experts: y.known.Model.Experts}.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		y.known.InForce[int(lp.Layer)] = checked
		y.warm += verdicts[i].Warm
		y.functions += len(lp.Functions)
	}
}
