package elastic

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// A host that has refused something gets nothing more, unless nobody is left who could have
// it. A host without room for one expert is nobody.
func TestMarkFull(t *testing.T) {
	const expert = 10
	for _, tt := range []struct {
		name    string
		budgets []uint64 // by host: a, b, …
		refused []string
		full    []string
	}{
		{"nobody", []uint64{20, 20}, nil, nil},
		{"one", []uint64{20, 20}, []string{"a"}, []string{"a"}},
		{"one that is gone", []uint64{20, 20}, []string{"z"}, nil},
		{"all", []uint64{20, 20}, []string{"a", "b"}, nil},
		{"all, of which one has no limit", []uint64{20, 0}, []string{"a", "b"}, nil},
		{"all but one without a limit", []uint64{20, 0}, []string{"a"}, []string{"a"}},
		{"all but one without slots", []uint64{20, expert - 1}, []string{"a"}, nil},
		{"the one without slots", []uint64{20, expert - 1}, []string{"b"}, []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hosts []plan.Host
			for i, budget := range tt.budgets {
				hosts = append(hosts, plan.Host{ID: string(rune('a' + i)), Budget: budget})
			}
			refused := map[refusal]float64{}
			for _, id := range tt.refused {
				refused[refusal{id, "f"}] = 1
			}
			f := newFleet(hosts, expert)
			f.markFull(refused, 1+refusedFor)
			var full []string
			for _, h := range f.hosts {
				if h.full {
					full = append(full, h.id)
				}
			}
			if !slices.Equal(full, tt.full) {
				t.Errorf("full are %v, want %v", full, tt.full)
			}
		})
	}
}
