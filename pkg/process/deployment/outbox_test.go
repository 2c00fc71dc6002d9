package deployment

import (
	"context"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sink hands samples on.
type sink chan *pb.LoadSample

func (s sink) Send(l *pb.LoadSample) { s <- l }

func outbox() (*LoadOutbox, sink) {
	to := make(sink, 10)
	d := &Deployment{Loads: to, Identity: wire.Identity{Model: 7}, Model: &model.Model{Spec: model.Spec{Layer: make([]model.LayerSpec, 3)}}}
	return d.NewLoadOutbox("predictor-1", pb.LoadSource_LOAD_SOURCE_PREDICTOR), to
}

// What comes together becomes one sample a layer; very much becomes several.
func TestLoadOutbox(t *testing.T) {
	o, to := outbox()
	for step := range uint64(3) {
		o.Put(1, &pb.StepLoad{Step: step})
		o.Put(2, &pb.StepLoad{Step: step})
	}
	o.Flush()
	for range maxGathered + 1 {
		o.Put(1, &pb.StepLoad{})
	}
	o.Flush()
	o.Flush() // nothing is left
	want := []struct {
		layer uint32
		steps int
	}{{1, 3}, {2, 3}, {1, maxGathered}, {1, 1}}
	if len(to) != len(want) {
		t.Fatalf("%d samples, want %d", len(to), len(want))
	}
	for i, w := range want {
		s := <-to
		if s.Layer != w.layer || len(s.Steps) != w.steps || s.SpanMs == 0 || s.Host != "predictor-1" ||
			s.Model != 7 || s.Source != pb.LoadSource_LOAD_SOURCE_PREDICTOR {
			t.Errorf("sample %d is %v, want %v", i, s, w)
		}
	}
}

// What is put in is told without anybody asking, and at the end.
func TestLoadOutboxRuns(t *testing.T) {
	o, to := outbox()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	o.Put(0, &pb.StepLoad{})
	testkit.Eventually(t, "a sample", func() bool { return len(to) == 1 })
	o.Put(0, &pb.StepLoad{})
	stop()
	<-done
	if len(to) != 2 {
		t.Errorf("%d samples at the end, want 2", len(to))
	}
}

// Where nobody wants samples nothing is gathered.
func TestNoLoadSink(t *testing.T) {
	o := (&Deployment{}).NewLoadOutbox("gate-1", pb.LoadSource_LOAD_SOURCE_GATE)
	o.Put(0, &pb.StepLoad{})
	if o.Run(t.Context()); o != nil {
		t.Error("an outbox for nobody")
	}
}
