package scaler

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// access is what most expert hosts say that an access takes; false if none says what can be.
func access(all []*pb.Member) (takes divide.Takes, said bool) {
	times := map[divide.Takes]int{}
	for _, m := range members.OfService(all, "expert") {
		if t := plan.Takes(m.Access); m.Access != nil && t.Check() == nil {
			times[t]++
		}
	}
	for t, n := range times {
		if !said || n > times[takes] || n == times[takes] && slices.Compare(numbers(t), numbers(takes)) < 0 {
			takes, said = t, true
		}
	}
	return takes, said
}

func numbers(t divide.Takes) []float64 { return []float64{t.Read, t.Row, t.Unit, t.Call} }

// learn tells the core what accesses take on the hosts.
func (p *policy) learn(core *elastic.Core, expertBytes uint64) {
	if t, said := p.access(); said {
		core.Takes(t.Device(float64(cmp.Or(expertBytes, 1))))
	}
}
