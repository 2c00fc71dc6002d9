package expert

import (
	"context"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

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
