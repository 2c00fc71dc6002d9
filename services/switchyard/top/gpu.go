package top

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/control/members"
)

// gpu is what the GPU of a replica says, as far as it does.
func (m *Member) gpu() (words []string) {
	for _, f := range []struct {
		fact   cuda.FactName
		format string
		unit   float64
	}{
		{cuda.Power, "%.0f W", 1},
		{cuda.Temperature, "%.0f °C", 1},
		{cuda.Busy, "busy %.0f%%", 0.01},
		{cuda.MemoryUsed, "memory %.1f GiB used", 1 << 30},
		{cuda.MemoryFree, "%.1f GiB free", 1 << 30},
		{cuda.Uncorrected, "%.0f memory errors", 1},
	} {
		if v, says := m.Stats[string(f.fact)]; says {
			words = append(words, fmt.Sprintf(f.format, v/f.unit))
		}
	}
	switch throttled := m.Stats[members.DeviceThrottled] > 0; {
	case throttled && m.Service == "gate": // nobody avoids one
		words = append(words, "throttled")
	case throttled:
		words = append(words, "throttled: work goes to others")
	}
	return words
}
