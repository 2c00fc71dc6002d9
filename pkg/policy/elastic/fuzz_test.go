package elastic

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever somebody writes to the topic, the scaler refuses it with a kind, or
// decides on a legal plan with numbers that are some.
func FuzzObserve(f *testing.F) {
	for _, s := range []*pb.LoadSample{
		{Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: 3, Expert: []uint32{1, 2}, Count: []uint32{1, 2}}}},
		{Source: pb.LoadSource_LOAD_SOURCE_PREDICTOR, Layer: 1, Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: 1, Distance: 1, Expert: []uint32{3}, Count: []uint32{1}}}},
		{Expert: []uint32{0}, Rows: []uint64{5}, Total: []uint64{9}, Memory: &pb.HostLoad{ColdStarts: 2, ColdStartNs: 1 << 40}},
	} {
		s.Version, s.Model, s.Host, s.SpanMs, s.Number = schemas.Version, testHash, "host-a", 10, 1
		body, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &pb.LoadSample{}
		if proto.Unmarshal(body, s) != nil {
			return
		}
		m := testModel(2, 4)
		core, err := New(printed(), m)
		if err != nil {
			t.Fatal(err)
		}
		k := plan.Known{Model: m.Model, Settings: plan.DefaultSettings(), Hosts: []plan.Host{{ID: "host-a"}, {ID: "host-b", Budget: 80}}}
		for now := 0.0; now < 3; now++ {
			var bad *SampleError
			if err := core.Observe(now, s); err != nil && (!errors.As(err, &bad) || cures[bad.Kind] == "") {
				t.Fatalf("refused as nothing: %v", err)
			}
			s.Number++
			k.InForce = fuzzDecide(t, core, now, k)
		}
	})
}

func fuzzDecide(t *testing.T, core *Core, now float64, k plan.Known) map[int]*plan.Layer {
	t.Helper()
	d, verdicts, err := core.Decide(now, k)
	if err != nil {
		t.Fatal(err)
	}
	in := map[int]*plan.Layer{}
	for i, lp := range d.Layers {
		if in[int(lp.Layer)], err = (plan.Rules{MoELayers: k.Model.MoELayers, Experts: k.Model.Experts}).Check(lp); err != nil {
			t.Fatal(err)
		}
		if b := verdicts[i].After; math.IsNaN(b.CV) || math.IsInf(b.CV, 0) || math.IsNaN(b.Balancedness) {
			t.Fatalf("%+v", verdicts[i])
		}
	}
	return in
}
