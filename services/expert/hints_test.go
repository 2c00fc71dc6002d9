package expert

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host takes hints that can be, and refuses others; neither changes anything else.
func TestHints(t *testing.T) {
	h := startHost(t, 0)
	run(t, func(ctx context.Context) { h.takeHints(ctx) })
	good := &pb.Hint{
		Version: schemas.Version, Model: h.d.Identity.Model, Predictor: "p", Owner: "a",
		Layers: []*pb.LayerHint{{Kind: plan.Routed, Unit: []uint32{3}, Probability: []float32{0.5}}},
	}
	bad := proto.CloneOf(good)
	bad.Layers[0].Unit[0] = 4
	for _, m := range []*pb.Hint{good, bad, good} {
		if err := h.d.Conn.Send(t.Context(), h.d.Subjects.Hint(h.id), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	count := h.metrics.Hosts.Hints
	h.await("all three", func() bool {
		return testkit.Count(t, count.WithLabelValues("taken")) == 2 && testkit.Count(t, count.WithLabelValues("refused")) == 1
	})
}
