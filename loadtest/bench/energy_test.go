package bench

import (
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
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

// The pipeline's own GPUs are asked, each once; one that says nothing is no error, and makes
// the sum unknown.
func TestEnergyOfGPU(t *testing.T) {
	mute := fake.NewFacts()
	mute.Without(kernels.Energy)
	on := func(joules float64) *gpus.GPU {
		said := fake.NewFacts()
		said.Set(kernels.Energy, joules)
		return &gpus.GPU{Watch: gpus.NewWatch(said)}
	}
	shared := on(7)
	for _, tt := range []struct {
		expert, attention, gate *gpus.GPU
		names                   string
		want                    reading
	}{
		{nil, nil, nil, "cpu", reading{}},
		{&gpus.GPU{Info: kernels.Info{Name: "fake"}}, nil, nil, "cuda:fake (attention cpu, gates cpu)", reading{}},
		{&gpus.GPU{Watch: gpus.NewWatch(mute)}, nil, nil, "cuda: (attention cpu, gates cpu)", reading{}},
		{on(12), nil, nil, "cuda: (attention cpu, gates cpu)", reading{12, true}},
		{nil, on(12), nil, "cpu (attention cuda:, gates cpu)", reading{12, true}},
		{shared, shared, shared, "cuda:", reading{7, true}},
		{on(1), on(2), on(4), "cuda:", reading{7, true}},
		{on(12), &gpus.GPU{}, nil, "cuda: (attention cuda:, gates cpu)", reading{}},
	} {
		side := &pipelineSide{cluster: &cluster.Cluster{}}
		of := &side.cluster.Settings.Services
		of.Expert.GPU, of.Attention.GPU, of.Gate.GPU = tt.expert, tt.attention, tt.gate
		if got := side.energy(); got != tt.want || side.devices().String() != tt.names {
			t.Errorf("%s: %+v, want %+v and %s", side.devices(), got, tt.want, tt.names)
		}
		if r := (&rescale{pipelineSide: side}).result(0); r.Names != side.devices() || !strings.Contains(r.String(), tt.names+", 3 hosts") {
			t.Errorf("rescaling on %s: %v", tt.names, r)
		}
	}
	if r := (&Result{Names: Names{"cuda:fake", "cuda:fake", "cuda:fake"}, Joules: 1.25}).String(); !strings.Contains(r, "cuda:fake: pipeline") ||
		!strings.Contains(r, "1.25 J of the GPU") || strings.Contains(r, "FMA peak") {
		t.Error(r)
	}
	if r := (&Result{Names: Names{"cpu", "cpu", "cpu"}}).String(); strings.Contains(r, " J of") || !strings.Contains(r, "FMA peak") {
		t.Error(r)
	}
}
