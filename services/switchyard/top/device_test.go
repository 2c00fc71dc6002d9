package top

import (
	"strings"
	"testing"
)

func TestPaced(t *testing.T) {
	host := func(device string, computes, late float64) Member {
		return Member{Service: "expert", Device: device, Stats: map[string]float64{statPacedComputes: computes, statPacedLate: late, statPacedLoads: 2, statPacedSeconds: computes / 500}}
	}
	for _, tt := range []struct {
		name          string
		members       []Member
		devices, says string
	}{
		{"none", []Member{{Service: "gate"}, {Service: "expert", Device: "cpu"}}, "", ""},
		{
			"two of a kind and another", []Member{host("paced:b", 30, 2), host("paced:b", 10, 0), host("paced:a", 10, 0)},
			"paced:a, paced:b", "experts take that device's time and memory, not this machine's; late: results 2 of 50 (4%)   loads 0 of 6 (0%)   each result by 2 ms",
		},
	} {
		s := &Snapshot{Members: tt.members}
		if devices, says := s.paced(); devices != tt.devices || says != tt.says || !strings.Contains(s.View(nil), tt.says) {
			t.Errorf("%s: %q, %q, want %q in\n%s", tt.name, devices, says, tt.says, s.View(nil))
		}
	}
}

func TestDeviceOf(t *testing.T) {
	for name, want := range map[string]string{
		"": "-", "cpu": "cpu", "paced:a6000-mixtral": "paced:a6000-mixtral", "\x1b[31mred": "?", strings.Repeat("x", longestDevice+1): "?",
	} {
		if got := deviceOf(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}
