package sim

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/copies"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// View is what a decision about a layer is made on.
type View struct {
	Settings
	Now   float64 // seconds
	Layer int
	Loads []float64    // rows of each expert: predicted, or counted
	Warm  []place.Warm // what hosts hold, or load
	// Serving are those of them that the decision before wanted.
	Serving []place.Warm
	Fleet   []place.Host // with the memory that the layer may have on each
	// Spare are the replicas beyond each expert's first that fit in it.
	Spare int
}

// Decide decides which hosts run an expert's replicas.
type Decide func(View) (place.Placement, error)

// Sight is what a policy knows of loads.
type Sight int

// What a policy may know.
const (
	// Past is what the layer's experts had since the decision before.
	Past Sight = iota
	// Ahead is a prediction made when the layer begins that lies the prediction
	// distance before.
	Ahead
	// Exact is what is going to be.
	Exact
)

// Policy is what is compared.
type Policy struct {
	Name   string
	Decide Decide // nil is the initial placement for ever
	Sees   Sight
	// Every are the seconds between decisions about a layer; 0 is each iteration.
	Every float64
	// Corrects says that predictions are corrected by what came of those before.
	Corrects bool
	// Divides says that gates divide an expert's rows only where that ends a layer sooner
	// (pkg/policy/divide); else all its replicas have equally many.
	Divides bool
	// KeepAlive are seconds in place of the settings', if it is not 0, for replicas beside
	// an expert's last one: rows that find an expert nowhere wait for a cold start.
	KeepAlive float64
	// Start decides before the first iteration, on the loads of the trace's first
	// ten minutes.
	Start bool
	// Serverful says that the paper bills all memory all the time.
	Serverful bool
	// Lossy is the oracle, which gives all hosts equally many rows, against the
	// gate's choice.
	Lossy bool
}

// Seconds between decisions of the baselines.
const (
	eplbEvery     = 600 // MoEless, §6.1
	reactiveEvery = 15  // Kubernetes' HPA, --horizontal-pod-autoscaler-sync-period
)

// leanKeepAlive are the seconds for which moeless+lean keeps replicas that nobody needs,
// beside an expert's last one: as long as the model's layers take to have their turn, some
// times over.
const leanKeepAlive = 2

// Policies are those that are compared, in the order of reports.
func Policies() []Policy {
	return []Policy{
		{Name: "static", Serverful: true},
		{Name: "eplb", Decide: eplb(redundant), Every: eplbEvery, Start: true, Serverful: true},
		{Name: "eplb+", Decide: eplb(redundant), Every: eplbEvery, Start: true, Serverful: true, Divides: true},
		{Name: "eplb-full", Decide: eplb(math.MaxInt), Every: eplbEvery, Start: true, Serverful: true},
		{Name: "eplb-full+", Decide: eplb(math.MaxInt), Every: eplbEvery, Start: true, Serverful: true, Divides: true},
		{Name: "reactive", Decide: Both(scale.Reactive, place.MoEless), Every: reactiveEvery},
		{Name: "oracle", Serverful: true, Lossy: true},
		{Name: "moeless", Decide: Both(scale.MoEless, place.MoEless), Sees: Ahead},
		{Name: "moeless+", Decide: Copies, Sees: Ahead, Corrects: true, Divides: true},
		{Name: "moeless+lean", Decide: Copies, Sees: Ahead, Corrects: true, Divides: true, KeepAlive: leanKeepAlive},
	}
}

// atOnce is the part of the time of a load that it must save a layer at once: the
// replica stays, and saves more.
const atOnce = 0.05

// Copies decides what to load beside what is warm.
func Copies(v View) (place.Placement, error) {
	p := v.believed()
	gain := atOnce * (p.ColdStart.Value + p.ExpertBytes.Value/p.Bandwidth.Value)
	experts := make([]copies.Expert, len(v.Loads))
	for e, n := range v.Loads {
		experts[e] = copies.Expert{ID: uint32(e), Load: n, Bytes: uint64(p.Expert())}
	}
	return copies.Decide(copies.State{Experts: experts, Hosts: v.Fleet, Warm: v.Warm}, copies.Settings{Device: v.takes(), Gain: gain, Spare: v.Spare})
}

// takes is what accesses take, the messages of their rows included.
func (s Settings) takes() cost.Device {
	d := s.believed().Compute()
	d.Timer = messages{d.Timer, 2 * s.believed().Beta.Value}
	return d
}

// messages adds what each row takes on its way, there and back.
type messages struct {
	cost.Timer
	row float64
}

func (m messages) Seconds(a cost.Access) float64 {
	return m.Timer.Seconds(a) + m.row*float64(max(0, a.Rows))
}

// redundant is how many redundant experts EPLB has for each expert. The paper's
// costs say so: EPLB's is (1 - 0.9268) / (1 - 0.9511) = 1.50 of Megatron-LM's in
// (1 - 0.4319) / (1 - 0.2189) = 0.73 of its time, so in 2.06 times the memory.
const redundant = 1

// eplb is EPLB with so many redundant experts for each expert, or as many as there
// is memory for.
func eplb(redundant int) Decide {
	return func(v View) (place.Placement, error) {
		experts := len(v.Loads)
		if redundant < math.MaxInt/experts {
			v.Spare = min(v.Spare, redundant*experts)
		}
		return Both(scale.EPLB, place.EPLB)(v)
	}
}

// Both decides by a policy for replicas and one for their hosts.
func Both(s scale.Policy, p place.Policy) Decide {
	return func(v View) (place.Placement, error) {
		return p(place.State{Experts: v.scaled(s), Hosts: v.Fleet, Previous: v.Warm})
	}
}

// scaled are the experts with as many replicas as a policy gives them.
func (v View) scaled(policy scale.Policy) []place.Expert {
	bytes := uint64(v.Model.Profile.Expert())
	experts := make([]scale.Expert, len(v.Loads))
	for e, n := range v.Loads {
		experts[e] = scale.Expert{ID: uint32(e), Load: n, Bytes: bytes}
	}
	d := policy(experts, scale.Settings{CV: v.CV, MemoryCap: uint64(v.Spare) * bytes, MaxReplicas: v.Hosts})
	to := make([]place.Expert, len(d.Experts))
	for e, s := range d.Experts {
		to[e] = place.Expert{ID: s.ID, Replicas: s.Replicas, LoadEach: s.LoadEach, Bytes: bytes, Node: s.Node}
	}
	return to
}
