package gpus

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// No GPU, and one that says nothing, are followed, and nothing is known of them.
func TestUnwatched(t *testing.T) {
	shown := telemetry.NewMetrics(prometheus.NewRegistry()).GPUs
	for _, g := range []*GPU{nil, {}} {
		g.Follow(t.Context(), slog.New(slog.DiscardHandler), shown, nobody)()
		if g.Figures() != nil || g.Throttles() {
			t.Errorf("%+v says %v", g, g.Figures())
		}
	}
}

// Two uses of one GPU are read once; those of different GPUs, and of one that is none, are apart.
func TestShare(t *testing.T) {
	on := func(pci string) *GPU { return &GPU{Info: cuda.Info{PCI: pci}, Watch: NewWatch(fake.NewFacts())} }
	a, same, other := on("0000:01:00.0"), on("0000:01:00.0"), on("0000:02:00.0")
	other.Share(a)
	other.Share(nil)
	(*GPU)(nil).Share(a)
	if same.Share(a); same.Watch != a.Watch || other.Watch == a.Watch {
		t.Error("other watches are shared")
	}
}

// Replicas that follow a GPU see whether it throttles, and get its figures.
func TestThrottlesWhenSlowed(t *testing.T) {
	said := fake.NewFacts()
	g := &GPU{Watch: every(said, soon)}
	defer g.Follow(t.Context(), slog.New(slog.DiscardHandler), telemetry.NewMetrics(prometheus.NewRegistry()).GPUs, nobody)()
	testkit.Eventually(t, "figures", func() bool { return g.Figures() != nil })
	if g.Throttles() {
		t.Error("an idle one throttles")
	}
	g.Watch.mu.Lock()
	g.Watch.throttle.Avoid, g.Watch.throttle.Share = true, 1
	g.Watch.mu.Unlock()
	said.Throttle(cuda.HardwareThermal)
	if !g.Throttles() {
		t.Error("one that is slowed all the time does not throttle")
	}
}
