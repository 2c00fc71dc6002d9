package predictor

import (
	"context"
	"errors"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Each step and row comes once, in order, also what was sent before anybody read; what is no
// copy of rows is passed over.
func TestEveryRow(t *testing.T) {
	d := testdeployment.Open(t)
	d.Streams.AllRows = true
	if err := d.EnsureStreams(t.Context(), d.Streams.Rows()); err != nil {
		t.Fatal(err)
	}
	send := func(subject string, m proto.Message) {
		t.Helper()
		if err := d.Conn.Send(t.Context(), subject, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var got []uint64
	note := func(n uint64) { mu.Lock(); defer mu.Unlock(); got = append(got, n) }
	e := &everyRow{d: d, step: func(s *pb.Step) { note(100 * s.Step) }, rows: func(h *pb.Hidden) { note(100*h.Key.Step + uint64(h.Key.Layer) + 1) }}
	step := func(n uint64) {
		send(d.Subjects.RowsStep(), &pb.Step{Version: schemas.Version, Model: d.Identity.Model, Owner: "a", Step: n})
		for _, layer := range d.MoELayers()[:2] {
			k := &pb.Key{Version: schemas.Version, Model: d.Identity.Model, Owner: "a", Step: n, Layer: uint32(layer), Rows: 2}
			x := make([]float32, 2*d.Shape.Hidden)
			send(d.Subjects.Rows(layer), &pb.Hidden{Key: k, Tensor: tensor.Encode(d.Wire, x, d.Shape.Hidden, nil), Phases: []*pb.PhaseRange{{Phase: pb.Phase_PHASE_DECODE, Rows: 2}}})
		}
	}
	step(1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	send(d.Subjects.Rows(0), &pb.Hidden{})
	send(d.Subjects.RowsStep(), &pb.Step{Version: schemas.Version, Model: d.Identity.Model, Owner: "a.>"})
	step(2)
	testkit.Eventually(t, "both steps", func() bool { return e.steps.Load() == 2 && e.seen.Load() == 8 })
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := []uint64{100, 101, 102, 200, 201, 202}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	before := testkit.Count(t, d.Telemetry.Metrics.PredictionsLost)
	e.take(bus.Stored{Subject: d.Subjects.RowsStep(), Sequence: e.next + 4})
	if lost := testkit.Count(t, d.Telemetry.Metrics.PredictionsLost) - before; lost != 4 {
		t.Errorf("%v messages are told as lost, want 4", lost)
	}
}
