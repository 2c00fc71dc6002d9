package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Each GPU is shown once, with what it says; one that nobody follows is not.
func TestGPUs(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r).GPUs
	some := func() GPUState {
		return GPUState{Facts: cuda.Facts{Values: map[cuda.FactName]float64{cuda.MemoryFree: 7, cuda.Power: 350, cuda.Energy: 12}}, Noted: map[uint64]int{31: 2}}
	}
	hot := func() GPUState {
		return GPUState{Facts: cuda.Facts{Values: map[cuda.FactName]float64{cuda.Slowed: float64(cuda.HardwareThermal), cuda.Uncorrected: 3}}, Avoid: true}
	}
	for _, want := range [][]string{{
		"gpu_ecc_errors_total 1 uncorrected 3", "gpu_energy_joules_total 0 12", "gpu_memory_bytes 0 free 7", "gpu_power_watts 0 350",
		"gpu_slowed 1 clock_setting 0", "gpu_slowed 1 display_setting 0", "gpu_slowed 1 hardware 0", "gpu_slowed 1 hardware_thermal 1", "gpu_slowed 1 idle 0",
		"gpu_slowed 1 power_brake 0", "gpu_slowed 1 power_limit 0", "gpu_slowed 1 software_thermal 0", "gpu_slowed 1 sync_boost 0",
		"gpu_throttled 1 1", "gpu_xid_errors_total 0 31 2",
	}, nil} {
		var stops []func()
		if want != nil {
			stops = []func(){m.Follow(0, some), m.Follow(0, some), m.Follow(1, hot)}
		}
		if got := gpuLines(t, r); !slices.Equal(got, want) {
			t.Errorf("%q, want\n%q", got, want)
		}
		for _, stop := range stops {
			stop()
		}
	}
}

// gpuLines are the metrics of GPUs: name, labels' values, value.
func gpuLines(t *testing.T, r prometheus.Gatherer) (lines []string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name, of := strings.CutPrefix(f.GetName(), "switchyard_gpu")
		for _, m := range f.Metric {
			if !of {
				continue
			}
			words := []string{"gpu" + name}
			for _, l := range m.Label {
				words = append(words, l.GetValue())
			}
			lines = append(lines, fmt.Sprint(strings.Join(words, " "), " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return lines
}
