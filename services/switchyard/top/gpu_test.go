package top

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/control/members"
)

func TestGPUs(t *testing.T) {
	host := func(stats map[string]float64) Member { return Member{ID: "expert-1", Service: "expert", Stats: stats} }
	all := map[string]float64{
		string(cuda.Power): 349.6, string(cuda.Temperature): 61, string(cuda.Busy): 0.75, string(cuda.MemoryUsed): 3 << 30,
		string(cuda.MemoryFree): 1 << 29, string(cuda.Uncorrected): 0, members.DeviceThrottled: 0,
	}
	for _, tt := range []struct {
		name   string
		member Member
		want   string
	}{
		{"a CPU", host(map[string]float64{members.HostRows: 3}), ""},
		{"all", host(all), "GPU of expert-1  350 W  61 °C  busy 75%  memory 3.0 GiB used  0.5 GiB free  0 memory errors\n"},
		{"hot, and says little", host(map[string]float64{members.DeviceThrottled: 1}), "GPU of expert-1  throttled: work goes to others\n"},
		{"a hot gate", Member{ID: "gate-1", Service: "gate", Stats: map[string]float64{members.DeviceThrottled: 1}}, "GPU of gate-1  throttled\n"},
	} {
		s := &Snapshot{Members: []Member{tt.member}}
		if got := s.View(nil); !strings.Contains(got, tt.want) || strings.Contains(got, "GPU of") != (tt.want != "") {
			t.Errorf("%s: want %q in\n%s", tt.name, tt.want, got)
		}
	}
}
