package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Planned is a layer's plan that a scaler has made by loads.
type Planned struct {
	Layer int `json:"layer"`
	// AgeSeconds is since it was written, by the server's clock and this one.
	AgeSeconds float64 `json:"age_seconds"`
	Policy     string  `json:"policy"`
	Reason     string  `json:"reason"`
}

func plannedOf(l *pb.LayerPlan, written time.Time) Planned {
	return Planned{
		Layer: int(l.Layer), AgeSeconds: max(0, time.Since(written).Seconds()), Policy: clean(l.Policy), Reason: clean(l.Reason),
	}
}

// shownPlans are the plans that are shown: those that were written last.
const shownPlans = 3

// plans has why the plans of layers changed last, and what has come of changes; false while
// no plan is made by loads.
func (s *Snapshot) plans() (g group, byLoads bool) {
	g = group{key: "plans", title: "Last changes of plans", table: table{head: []string{"LAYER", "AGE", "REASON"}}}
	byLoad := slices.DeleteFunc(slices.Clone(s.Plans), func(p Planned) bool { return p.Policy == "" })
	slices.SortStableFunc(byLoad, func(a, b Planned) int { return cmp.Compare(a.AgeSeconds, b.AgeSeconds) })
	for _, p := range byLoad[:min(shownPlans, len(byLoad))] {
		g.table.add(strconv.Itoa(p.Layer), fmt.Sprintf("%.0f s", p.AgeSeconds), p.Reason)
	}
	helped, undone := s.sum(members.TrialsHelped), s.sum(members.TrialsUndone)
	g.brief = fmt.Sprintf("changes that helped: %.0f, undone: %.0f", helped, undone)
	if undone > helped {
		g.brief += "; scaling hurts here"
	}
	if doubted := s.doubted(); len(doubted) > 0 {
		g.brief += "; no hosts have computed the rows that these gates tell of, which count for nothing: " + strings.Join(doubted, ", ")
	}
	return g, len(byLoad) > 0
}

// doubted are the gates that scalers have named, each with how many of its samples they refused.
func (s *Snapshot) doubted() (gates []string) {
	for _, m := range s.Members {
		for name, n := range m.Stats {
			if gate, ok := strings.CutPrefix(name, members.Doubted); ok && m.Service == "scaler" {
				gates = append(gates, fmt.Sprintf("%s (%.0f samples)", clean(gate), n))
			}
		}
	}
	slices.Sort(gates)
	return gates
}
