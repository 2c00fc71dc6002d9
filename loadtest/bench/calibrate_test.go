package bench

import (
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// A profile of this machine is one that a file can have.
func TestProfile(t *testing.T) {
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	threads := pool.New(2)
	defer threads.Close()
	d := device.NewCPU(m, threads, device.Settings{})
	defer d.Close()
	if err := device.LoadAll(t.Context(), d, m.Spec); err != nil {
		t.Fatal(err)
	}
	b := &Bench{
		settings: Settings{Model: m, Devices: &Devices{Experts: d}, Seconds: 0.01, Progress: func(string, ...any) {}},
	}
	p, roofline, curve, err := b.Profile([]int{1, 16, 64})
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := profiles.Read("cpu.yaml", text); err != nil || got.Compute().Compute(got.Of(64)) <= got.Compute().Compute(got.Of(1)) {
		t.Errorf("%v, %v of\n%s", got, err, text)
	} else if err := got.Take(profiles.Measured); err != nil || len(got.Curve.Points) != 3 || got.Compute().Compute(got.Of(64)) <= got.Compute().Compute(got.Of(1)) {
		t.Errorf("%v of\n%s", err, text)
	}
	if !(roofline > 0 && curve > 0) {
		t.Errorf("errors are %v and %v", roofline, curve)
	}
}
