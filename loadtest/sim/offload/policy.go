package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// Policy is a way to hold fewer experts than are served: what predicts, in which order copies
// go and come, and whether steps wait for that.
type Policy struct {
	Name, About string
	// Predictor is the kind of Foresight.
	Predictor Kind
	// Order is lru, lfu, fmoe, next-use or belady.
	Order string
	// Synchronous policies' steps wait for predictions and for all that they fetch.
	Synchronous bool
	// Whole holds all experts, whatever the budget.
	Whole bool
	// Distance is that of prediction if it is not the setting's.
	Distance int
	// Ageing is what is left of a visit's weight a step later; 0 is 1.
	Ageing float64
	// Chosen has hosts told what a gate has chosen, in decode, so that they give up what they load of its layer in vain.
	Chosen bool
	// Near has hosts follow no hint for more layers ahead than they have room for experts.
	Near bool
	// Foreknowing policies know what they could not: they are limits.
	Foreknowing bool
	// Baseline says that the paper compares with it.
	Baseline bool
}

// Kind is a way to predict.
type Kind string

// The kinds.
const (
	Nothing    Kind = "nothing"
	Reused     Kind = "reused gates"
	Learned    Kind = "learned"
	Counted    Kind = "request-level counts"
	Trajectory Kind = "maps (T)"
	Searched   Kind = "maps (T+S)"
	Selected   Kind = "maps (T+S+δ)"
	Streamed   Kind = "the whole next layer"
	Previous   Kind = "the previous map"
	Known      Kind = "what will be"
	Calibrated Kind = "calibrated maps and gates"
	MapsAlone  Kind = "calibrated maps"
)

// Belady is the order of eviction that knows what comes (residency.Belady), beside those of residency.Names.
const Belady = "belady"

// The names that reports tell apart.
const (
	FMoE     = "fmoe"
	Ours     = "fmoe+"
	OnDemand = "on-demand"
	Floor    = "belady"
	Limit    = "oracle"
	FarLimit = "oracle, 8 ahead"
	Held     = "no-offload"
	// Unfetched is Ours without prefetching.
	Unfetched = "fmoe+ fetching nothing"
)

// unwaited is behind the names of synchronous policies whose steps do not wait.
const unwaited = ", asynchronous"

// aged is Ours' ageing, assumed: visits count half after 23 steps.
const aged = 0.97

// far is how many layers ahead Ours looks: it weighs all distances up to that, so that far
// guesses cost little.
const far = 8

// Policies are those that are compared, in the order of reports.
func Policies() []Policy {
	return []Policy{
		{Name: Held, About: "all experts in memory, whatever the budget", Predictor: Nothing, Order: "lru", Whole: true},
		{Name: OnDemand, About: "loads what is missing (DeepSpeed-Inference with a cache)", Predictor: Nothing, Order: "lru", Baseline: true},
		{Name: "mixtral-offloading", About: "the next layer's gate, reused; its step waits", Predictor: Reused, Order: "lru", Synchronous: true, Distance: 1, Baseline: true},
		{Name: "promoe", About: "trained for a layer a stride ahead", Predictor: Learned, Order: "lru", Baseline: true},
		{Name: "moe-infinity", About: "request-level counts; its step waits", Predictor: Counted, Order: "lfu", Synchronous: true, Baseline: true},
		{Name: FMoE, About: "the paper's: expert maps by trajectory and embedding, as many experts as they are dissimilar", Predictor: Selected, Order: "fmoe"},
		{Name: Ours, About: "maps and reused gates, calibrated; what is held longest for a use goes, as expected", Predictor: Calibrated, Order: "next-use", Ageing: aged, Chosen: true, Near: true, Distance: far},
		{Name: Unfetched, About: "the same order of eviction, and no prefetch", Predictor: Calibrated, Order: "next-use", Ageing: aged, Distance: -1},
		{Name: "streamed", About: "the whole next layer, always", Predictor: Streamed, Order: "fmoe"},
		{Name: "previous", About: "the sequence's map of the step before", Predictor: Previous, Order: "fmoe"},
		{Name: Floor, About: "loads what is missing, and evicts what is used last", Predictor: Nothing, Order: Belady, Foreknowing: true},
		{Name: Limit, About: "knows the choices a distance ahead, and evicts what is used last", Predictor: Known, Order: Belady, Foreknowing: true},
		{Name: FarLimit, About: "the same, as far ahead as fmoe+ looks", Predictor: Known, Order: Belady, Distance: far, Foreknowing: true},
	}
}

// Ablation are the parts of fMoE (figures 12a and 12b), in its own framework: what tracks
// patterns, asynchronously and with its order; and its predictor with other orders.
func Ablation() (patterns, orders []Policy) {
	for _, k := range []Kind{Reused, Counted, Trajectory, Searched, Selected, Calibrated} {
		patterns = append(patterns, Policy{Name: string(k), Predictor: k, Order: "fmoe"})
	}
	for _, order := range append(residency.Names(), Belady) {
		orders = append(orders, Policy{Name: order, Predictor: Selected, Order: order, Foreknowing: order == Belady})
	}
	return patterns, orders
}

// Halves are Ours that knows one half of what the limit does: what comes, or what is used last.
func Halves() []Policy {
	of := func(name string, change func(*Policy)) Policy {
		p := Policy{Name: name, Predictor: Calibrated, Order: "next-use", Ageing: aged, Chosen: true, Near: true, Distance: far, Foreknowing: true}
		change(&p)
		return p
	}
	return []Policy{
		of("fmoe+ that knows what comes", func(p *Policy) { p.Predictor, p.Near = Known, false }), // the oracle tells of the layer that is so far ahead alone,
		of("fmoe+ that evicts as Belady", func(p *Policy) { p.Order = Belady }),
	}
}

// Asynchronous are the synchronous baselines without their waiting, which tell what it costs.
func Asynchronous() (all []Policy) {
	for _, p := range Policies() {
		if p.Synchronous {
			p.Name, p.Synchronous, p.Baseline = p.Name+unwaited, false, false
			all = append(all, p)
		}
	}
	return all
}

// Find is the policy of a name.
func Find(name string) (Policy, error) {
	all := append(Policies(), Asynchronous()...)
	at := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	if at >= 0 {
		return all[at], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("there is no policy of offloading %q; there are %s", name, strings.Join(names, ", "))
}
