package admission

import (
	"slices"

	"github.com/switchyard/switchyard/schemas"
)

// Load is what waits of a flow.
type Load struct {
	Flow schemas.Flow
	// Weight is the tenant's; not above 0: 1.
	Weight   float64
	Requests int
	// Work is in tokens.
	Work float64
}

// Ahead is how much of what waits goes before a request that comes now: of its
// own tenant what is as urgent or more, and of every other one what its share
// lets it have meanwhile, and a request on top, which its turn may bring.
func Ahead(waiting []Load, flow schemas.Flow, weight float64) (work float64) {
	own := 0.0
	others := map[string]Load{}
	for _, l := range waiting {
		switch {
		case l.Flow.Tenant != flow.Tenant:
			sum := others[l.Flow.Tenant]
			others[l.Flow.Tenant] = Load{Weight: l.Weight, Requests: sum.Requests + l.Requests, Work: sum.Work + l.Work}
		case rank(l.Flow.Class) <= rank(flow.Class):
			own += l.Work
		}
	}
	work = own
	for _, l := range others {
		meanwhile := own * orOne(l.Weight) / orOne(weight)
		work += min(l.Work, meanwhile+l.Work/float64(max(1, l.Requests)))
	}
	return work
}

// orOne is a weight, or that of who has none.
func orOne(weight float64) float64 {
	if weight <= 0 {
		return 1
	}
	return weight
}

func rank(c schemas.Class) int { return slices.Index(schemas.Classes, c) }

// Share is a tenant's share of the machine beside those who wait.
func Share(waiting []Load, tenant string, weight float64) float64 {
	weights := map[string]float64{}
	for _, l := range waiting {
		weights[l.Flow.Tenant] = orOne(l.Weight)
	}
	weights[tenant] = orOne(weight)
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	return orOne(weight) / sum
}
