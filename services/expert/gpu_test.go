package expert

import (
	"context"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/kernels/cuda/facts"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// Heartbeats and samples of loads have what the GPU says of itself, and nothing that it
// does not say.
func TestGPUFigures(t *testing.T) {
	said := fake.NewFacts()
	said.Set(facts.Temperature, 61)
	said.Without(facts.Busy)
	w := gpus.NewWatch(said)
	h := startHostWith(t, 0, Config{GPU: &gpus.GPU{Watch: w}})
	beat := func() map[string]float64 {
		stats := map[string]float64{}
		h.fill(stats)
		return stats
	}
	for _, figures := range []map[string]float64{beat(), h.hostLoad().Gpu} {
		if _, says := figures[string(facts.Temperature)]; says {
			t.Errorf("before anything was read: %v", figures)
		}
	}
	defer w.Follow(t.Context(), slog.New(slog.DiscardHandler), func(error) {})()
	testkit.Eventually(t, "figures", func() bool { return w.State().Values != nil })
	for _, figures := range []map[string]float64{beat(), h.hostLoad().Gpu} {
		throttled, says := figures[members.DeviceThrottled]
		if _, busy := figures[string(facts.Busy)]; busy || !says || throttled != 0 || figures[string(facts.Temperature)] != 61 {
			t.Errorf("%v", figures)
		}
	}
}

// A device that others gave the host stays open, with their experts, when the host ends.
func TestDeviceOfOthers(t *testing.T) {
	d := testdeployment.Open(t)
	theirs := devicetest.NewFake(d.Model.Spec.Layers, d.Model.Spec.Experts, device.Settings{})
	held := theirs.Load(t.Context(), forward.ExpertID{Layer: 0, Expert: 1}, 0)
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := New(d, Config{Device: theirs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if theirs.Live() == 0 {
		t.Error("an expert that others hold is gone")
	}
	again := theirs.Load(t.Context(), forward.ExpertID{Layer: 0, Expert: 2}, 0)
	if err := again.Wait(t.Context()); err != nil {
		t.Errorf("loading on it afterwards: %v", err)
	}
	held.Release()
	again.Release()
	theirs.Close()
}
