package static

import "github.com/switchyard/switchyard/pkg/policy/plan"

const (
	// groups is how many functions all layers have together, as long as all experts stay where
	// they are dealt to; more where there are more hosts, as each has one, or where layers need
	// them for leastHosts. A function is a consumer group: on a host it takes a handful of
	// goroutines and a subscription, and everybody follows its state.
	groups = 1000
	// leastHosts are those of a layer at least, if there are so many: a layer is done when the
	// busiest of them is.
	leastHosts = 8
)

// Deal is the hosts that a layer's experts are dealt to in turn, by their places among all of
// them. Experts of a layer on one host share a function, so that a layer has as many as hosts.
// In a large fleet each layer has a part of the hosts, next to those of the layer before:
// all layers have as many rows, and so need as many hosts, and each host has functions of few
// layers to tell of.
type Deal struct{ from, n, all int }

// DealOf is the deal of a layer, by its place among all layers. Where each expert is a
// function of its own it is all hosts.
func DealOf(layer, layers, hosts int, by plan.Grouping) Deal {
	d, most := Deal{n: hosts, all: hosts}, max(groups, hosts)
	if by == plan.ByExpert || hosts <= max(leastHosts, most/max(1, layers))+1 {
		return d
	}
	d.from = layer * hosts / layers
	d.n = max(leastHosts, (layer*hosts+most)/layers-d.from)
	return d
}

// Whole says whether it is all hosts.
func (d Deal) Whole() bool { return d.n >= d.all }

// Hosts is how many a layer has.
func (d Deal) Hosts() int { return d.n }

// Host is where an expert goes if it cannot go to so many hosts before: to each of the layer's,
// and then to the others.
func (d Deal) Host(expert, before int) int {
	if before < d.n {
		before = (expert + before) % d.n
	}
	return (d.from + before) % d.all
}
