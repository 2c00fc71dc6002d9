package hints

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// A host takes hints that can be, and refuses others.
func TestHints(t *testing.T) {
	d := testdeployment.Open(t)
	h := New(d, "here", nil)
	if err := h.Listen(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	defer running.Wait()
	defer cancel()
	good := &pb.Hint{
		Version: schemas.Version, Model: d.Identity.Model, Predictor: "p", Owner: "a",
		Layers: []*pb.LayerHint{{Kind: plan.Routed, Unit: []uint32{3}, Probability: []float32{0.5}}},
	}
	bad := proto.CloneOf(good)
	bad.Layers[0].Unit[0] = 4
	for _, m := range []*pb.Hint{good, bad, good} {
		if err := d.Conn.Send(t.Context(), d.Subjects.Hint("here"), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	count := d.Telemetry.Metrics.Hosts.Hints
	testkit.Eventually(t, "all three", func() bool {
		return testkit.Count(t, count.WithLabelValues("taken")) == 2 && testkit.Count(t, count.WithLabelValues("refused")) == 1
	})
}
