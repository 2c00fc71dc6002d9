package elastic

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// One decision on a whole model: loads are Zipf's and change each time, so that
// every layer is scaled and placed anew.
func BenchmarkDecide(b *testing.B) {
	for _, size := range [][3]int{
		{8, 16, 8}, {61, 64, 1000}, {61, 128, 1000}, {61, 256, 100}, {61, 256, 250}, {61, 256, 500}, {61, 256, 1000},
	} {
		layers, experts, hosts := size[0], size[1], size[2]
		for _, scaling := range []string{"moeless", "eplb", "moeless+"} {
			b.Run(fmt.Sprintf("scaling=%s/layers=%d/experts=%d/hosts=%d", scaling, layers, experts, hosts), func(b *testing.B) {
				y := newBench(b, scaling, layers, experts, hosts)
				y.decide(b)
				for b.Loop() {
					b.StopTimer()
					y.rows(b)
					b.StartTimer()
					y.decide(b)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N*layers), "ms/layer")
				b.ReportMetric(float64(y.warm)/float64(layers), "replicas/layer")
			})
		}
	}
}

type bench struct {
	core    *Core
	now     float64
	turn    int
	known   plan.Known
	numbers uint64
	warm    int
}

func newBench(b *testing.B, scaling string, layers, experts, hosts int) *bench {
	b.Helper()
	s := DefaultSettings()
	s.Scaling = scaling
	m := testModel(layers, experts)
	m.ExpertBytes = 44 << 20
	core, err := New(s, m)
	if err != nil {
		b.Fatal(err)
	}
	y := &bench{core: core, known: plan.Known{Model: m.Model, Settings: plan.Settings{Grouping: plan.ByExpert, Replicas: 1}}}
	slots := max(40, 2*layers*experts/hosts)
	for h := range hosts {
		y.known.Hosts = append(y.known.Hosts, plan.Host{ID: fmt.Sprintf("host-%04d", h), Budget: uint64(slots) * m.ExpertBytes})
	}
	return y
}

// steps are in a second.
const steps = 10

// rows are of another ten minutes, in which other experts are hot.
func (y *bench) rows(b *testing.B) {
	b.Helper()
	y.turn++
	y.numbers++
	y.now += 600
	for _, l := range y.known.Model.MoELayers {
		step := &pb.StepLoad{Owner: "attention-a"}
		for e := range y.known.Model.Experts {
			n := uint32(65536 / math.Pow(float64((e*37+y.turn*11+l)%y.known.Model.Experts+1), 0.8))
			step.Expert, step.Count, step.Rows = append(step.Expert, uint32(e)), append(step.Count, n), step.Rows+n
		}
		for i := range steps {
			err := y.core.Observe(y.now-1+float64(i)/steps, &pb.LoadSample{
				Version: schemas.Version, Model: testHash, Host: "gate-a", Layer: uint32(l), SpanMs: 10, Number: y.numbers*steps + uint64(i),
				Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func (y *bench) decide(b *testing.B) {
	b.Helper()
	d, verdicts, err := y.core.Decide(y.now, y.known)
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	defer b.StartTimer()
	y.warm, y.known.InForce = 0, map[int]*plan.Layer{}
	for i, lp := range d.Layers {
		checked, err := plan.Rules{MoELayers: y.known.Model.MoELayers, Experts: y.known.Model.Experts}.Check(lp)
		if err != nil {
			b.Fatal(err)
		}
		y.known.InForce[int(lp.Layer)] = checked
		y.warm += verdicts[i].Warm
	}
}
