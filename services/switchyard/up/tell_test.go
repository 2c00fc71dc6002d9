package up

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// A flag that allows more memory than the machine has is warned of, and nothing is said of
// others'.
func TestBeyondTheMachine(t *testing.T) {
	const machine = 8 << 30
	paced := &profiles.Profile{}
	for _, tc := range []struct {
		name    string
		machine uint64
		kv      int64
		experts expert.Config
		want    string
	}{
		{"as much", machine, machine, expert.Config{MemoryBudget: machine}, "[]"},
		{"keys and values", machine, machine + 1, expert.Config{}, "[{--kv-memory 8589934593}]"},
		{"experts", machine, 1, expert.Config{MemoryBudget: machine + 1}, "[{--expert-memory 8589934593}]"},
		{"both", machine, 1 << 40, expert.Config{MemoryBudget: 1 << 40}, "[{--kv-memory 1099511627776} {--expert-memory 1099511627776}]"},
		{"another device's", machine, 0, expert.Config{MemoryBudget: 1 << 40, Profile: paced}, "[]"},
		{"nobody knows", 0, 1 << 40, expert.Config{MemoryBudget: 1 << 40}, "[]"},
	} {
		got := beyond(tc.machine, cluster.Services{Attention: attention.Config{KVBytes: tc.kv}, Expert: tc.experts})
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, got, tc.want)
		}
	}
}
