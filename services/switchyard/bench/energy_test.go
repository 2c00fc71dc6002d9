package bench

import (
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/facts"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Energy is known when the GPU says it before and after each turn.
func TestEnergy(t *testing.T) {
	at := func(joules float64) reading { return reading{joules, true} }
	for _, tt := range []struct {
		name  string
		turns [][2]reading // of ten tokens each
		want  float64
	}{
		{"no turns", nil, 0},
		{"two turns", [][2]reading{{at(100), at(120)}, {at(150), at(160)}}, 1.5},
		{"no GPU", [][2]reading{{{}, {}}}, 0},
		{"it stops to say", [][2]reading{{at(100), at(120)}, {at(150), {}}}, 0},
		{"the driver was loaded anew", [][2]reading{{at(100), at(3)}}, 0},
	} {
		var e energy
		for _, turn := range tt.turns {
			e.count(turn[0], turn[1], 10)
		}
		if got := e.perToken(); got != tt.want {
			t.Errorf("%s: %v joules a token, want %v", tt.name, got, tt.want)
		}
	}
}

// The pipeline's own GPU is asked; one that says nothing is no error.
func TestEnergyOfGPU(t *testing.T) {
	said, mute := fake.NewFacts(), fake.NewFacts()
	said.Set(facts.Energy, 12)
	mute.Without(facts.Energy)
	for _, tt := range []struct {
		gpu    *gpus.GPU
		device string
		want   reading
	}{
		{nil, "cpu", reading{}},
		{&gpus.GPU{Info: kernels.Info{Name: "fake"}}, "cuda:fake", reading{}},
		{&gpus.GPU{Watch: gpus.NewWatch(mute)}, "cuda:", reading{}},
		{&gpus.GPU{Watch: gpus.NewWatch(said)}, "cuda:", reading{12, true}},
	} {
		side := &pipelineSide{cluster: &cluster.Cluster{}}
		side.cluster.Settings.Services.Expert.GPU = tt.gpu
		if got := side.energy(); got != tt.want || side.device() != tt.device {
			t.Errorf("%s: %+v, want %+v", side.device(), got, tt.want)
		}
		if r := (&rescale{pipelineSide: side}).result(0); r.Device != tt.device || !strings.Contains(r.String(), tt.device+", 3 hosts") {
			t.Errorf("rescaling on %s: %v", tt.device, r)
		}
	}
	if r := (&Result{Device: "cuda:fake", Joules: 1.25}).String(); !strings.Contains(r, "cuda:fake: pipeline") || !strings.Contains(r, "1.25 J of the GPU") {
		t.Error(r)
	}
	if r := (&Result{Device: "cpu"}).String(); strings.Contains(r, " J of") {
		t.Error(r)
	}
}
