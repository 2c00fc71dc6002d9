package policy

import (
	"fmt"
	"io"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Shared is what is printed of loads that replicas share.
type Shared struct {
	Groups   [][]int `json:"groups"` // of each replica, by the places of loads
	Makespan float64 `json:"makespan"`
}

// LPT shares loads among replicas by Longest Processing Time.
func LPT(in io.Reader) (*Shared, error) {
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "loads", "replicas")
	loads, replicas := r.floats(v, "loads"), r.upTo(v, "replicas", mostReplicas)
	for i, load := range loads {
		if load > scale.MostRows {
			r.fail(fmt.Sprintf("loads[%d]", i), "is %g; it must be at most %d", load, int64(scale.MostRows))
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	groups, makespan, err := serverless.Partition(loads, replicas)
	if err != nil {
		return nil, r.checked(err)
	}
	for i := range groups {
		if groups[i] == nil {
			groups[i] = []int{}
		}
	}
	return &Shared{groups, makespan}, nil
}

// mostReplicas bounds what is printed.
const mostReplicas = 1 << 16
