package gate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func meter(experts, layers int) (*loadMeter, *testdeployment.LoadSink) {
	to := &testdeployment.LoadSink{}
	return tellingTo(to, experts, layers), to
}

func tellingTo(to deployment.LoadSink, experts, layers int) *loadMeter {
	m := &model.Model{Spec: model.Spec{Experts: experts, Layer: make([]model.LayerSpec, layers)}}
	return newLoadMeter(&deployment.Deployment{Loads: to, Identity: wire.Identity{Model: 7}, Model: m}, "gate-1")
}

// step is hidden rows with routes, the first rows of a prompt.
func step(layer, prompt int, routes *forward.Routes) *pb.Hidden {
	return &pb.Hidden{
		Key: &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 3, Step: 9, Layer: uint32(layer), Rows: uint32(routes.Rows())},
		Phases: []*pb.PhaseRange{
			{Phase: pb.Phase_PHASE_PREFILL, Rows: uint32(prompt)}, {Phase: pb.Phase_PHASE_DECODE, Rows: uint32(routes.Rows() - prompt)},
		},
	}
}

func TestLoadMeter(t *testing.T) {
	m, to := meter(8, 3)
	routes := &forward.Routes{K: 2, Expert: []int32{5, 0, 5, 7, 0, 5}}
	m.count(step(2, 1, routes), routes, obeyed{}, 4)
	m.count(step(1, 0, routes), routes, obeyed{}, 5)
	again := step(1, 0, routes)
	again.Key.Attempt = 1
	m.count(again, routes, obeyed{}, 5)
	m.out.Flush()
	all := to.Take()
	if len(all) != 2 || all[0].Layer != 1 || all[1].Layer != 2 || all[1].Host != "gate-1" || all[1].Source != pb.LoadSource_LOAD_SOURCE_GATE {
		t.Fatalf("got %v", all)
	}
	s := all[1].Steps[0]
	if s.Owner != "attention-1" || s.Epoch != 3 || s.Step != 9 || s.Rows != 3 || s.PrefillRows != 1 || s.PlanVersion != 4 ||
		!slices.Equal(s.Expert, []uint32{0, 5, 7}) || !slices.Equal(s.Count, []uint32{2, 3, 1}) {
		t.Errorf("got %v", s)
	}
	if m.out.Flush(); len(to.Take()) > 0 {
		t.Error("told twice")
	}
}

// Every sample is one that readers believe, with all rows of all microbatches.
func TestLoadMeterAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const experts, layers, k = 8, 3, 2
		limits := claims.Limits{Model: 7, Layers: layers, Experts: experts, TopK: k}
		m, to := meter(experts, layers)
		want, got := 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			rows := rapid.IntRange(1, 4).Draw(t, "rows")
			routes := &forward.Routes{K: k}
			for range rows {
				one := rapid.Int32Range(0, experts-1).Draw(t, "expert")
				routes.Expert = append(routes.Expert, one, (one+3)%experts)
			}
			m.count(step(rapid.IntRange(0, layers-1).Draw(t, "layer"), 0, routes), routes, obeyed{}, 1)
			want += rows
		}
		m.out.Flush()
		for _, s := range to.Take() {
			if err := limits.Check(s); err != nil {
				t.Fatal(err)
			}
			for _, one := range s.Steps {
				got += int(one.Rows)
			}
		}
		if got != want {
			t.Fatalf("%d rows of %d", got, want)
		}
	})
}

// A deployment without a sink costs a gate nothing.
func TestNoSink(t *testing.T) {
	m := newLoadMeter(&deployment.Deployment{}, "gate-1")
	routes := &forward.Routes{K: 1, Expert: []int32{5}}
	h := step(0, 0, routes)
	m.run(t.Context())
	if n := testing.AllocsPerRun(10, func() { m.count(h, routes, obeyed{}, 1) }); m != nil || n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLoadMeter(b *testing.B) {
	m := tellingTo(nobody{}, 64, 1)
	routes := &forward.Routes{K: 4}
	for i := range 32 * 4 {
		routes.Expert = append(routes.Expert, int32(i*7%64))
	}
	h := step(0, 0, routes)
	b.ReportAllocs()
	for b.Loop() {
		m.count(h, routes, obeyed{}, 1)
	}
}

type nobody struct{}

func (nobody) Send(*pb.LoadSample) {}
