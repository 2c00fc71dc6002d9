package remoe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Request is what is known of a request.
type Request struct {
	// Most are the tokens that its prompt may have, known before it is tokenized; Prompt are
	// those that it has, and Output how many it may make after the first.
	Most, Prompt, Output int
	serverless.SLO
	// Decided is how many seconds behind the arrival functions begin to start.
	Decided float64
}

// Settings are those of planning.
type Settings struct {
	// Step is ε: by how much of a layer's experts b falls; one expert at least.
	Step float64
	Bound
	Sizing Sizing // of functions
	// Done, if set, hears of each step that has been decided: StageExperts, StageMemory and
	// StageReplicas.
	Done func(stage string)
}

// The steps that follow Preallocate.
const (
	StageExperts  = "select"
	StageMemory   = "memory"
	StageReplicas = "replicas"
)

func (s *Settings) done(stage string) {
	if s.Done != nil {
		s.Done(stage)
	}
}

// Main is what is decided before the prompt is read.
type Main struct {
	Away       int     // remote experts of each layer: b·K
	Ratio      float64 // b
	Memory     float64 // w
	TTFT, TPOT float64 // in the worst case
}

// ErrInfeasible says that no plan keeps the SLO.
var ErrInfeasible = errors.New("no plan keeps the SLO")

// Infeasible is why, with the times nearest to those asked for that can be kept together.
type Infeasible struct {
	Limit      string  // such as 10c: the one that is farther off at these times
	TTFT, TPOT float64 // 0 where nothing fits into the memory
	off        float64 // by how much the farther one is too long
}

func (e *Infeasible) Error() string {
	if e.TTFT == 0 {
		return fmt.Sprintf("%v: constraint %s is in the way at every share of remote experts; add larger memory sizes", ErrInfeasible, e.Limit)
	}
	return fmt.Sprintf("%v: constraint %s is in the way at every share of remote experts; the nearest that can be kept in the worst case is a TTFT of %.4g s with a TPOT of %.4g s: ask for no less", ErrInfeasible, e.Limit, upwards(e.TTFT), upwards(e.TPOT))
}

// upwards is a time as it is printed with four digits, none of which is rounded down.
func upwards(seconds float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(seconds))-3)
	return math.Ceil(seconds/unit*(1-1e-12)) * unit
}

// Unwrap makes it one of ErrInfeasible.
func (e *Infeasible) Unwrap() error { return ErrInfeasible }

// Check says what is wrong with a request.
func (r Request) Check() error {
	switch {
	case r.Prompt < 1 || r.Most < r.Prompt || r.Output < 0:
		return fmt.Errorf("a request has %d tokens, of at most %d, and makes %d more; it must have one or more, and no more than it may have", r.Prompt, r.Most, r.Output)
	case !(r.TTFT > 0 && r.TPOT > 0 && r.Decided >= 0):
		return fmt.Errorf("the SLO is %v s to the first token and %v s for each further one, with functions %v s behind the arrival; the first two must be above 0", r.TTFT, r.TPOT, r.Decided)
	}
	return nil
}

// Preallocate is algorithm 2: the largest share of remote experts with which the SLO holds in the
// worst case, and the memory of the main model then.
func Preallocate(s *serverless.System, r Request, set Settings) (Main, error) {
	step := max(1, int(set.Step*float64(s.Experts)+0.5))
	refused := &Infeasible{Limit: "10f"}
	for away := s.Experts; ; away = max(0, away-step) {
		m, fits := worst(s, r, set, away)
		if fits {
			if m.TTFT <= r.TTFT && m.TPOT <= r.TPOT {
				return m, nil
			}
			refused.note(m, r)
		}
		if away == 0 {
			return Main{}, refused
		}
	}
}

// note takes in what a share would take.
func (e *Infeasible) note(m Main, r Request) {
	first, further := m.TTFT/r.TTFT, m.TPOT/r.TPOT
	if off := max(first, further); e.TTFT == 0 || off < e.off {
		e.TTFT, e.TPOT, e.off, e.Limit = m.TTFT, m.TPOT, off, "10c"
		if first > further {
			e.Limit = "10b"
		}
	}
}

// worst is what a number of remote experts takes in the worst case; false where no memory holds
// the parts.
func worst(s *serverless.System, r Request, set Settings, away int) (m Main, fits bool) {
	sizes := s.Sizes()
	largest := sizes[len(sizes)-1]
	p := uniform(s, away, largest, s.Replicas)
	need := s.MainMemory(p.Layers, r.Most+r.Output)
	if away > 0 {
		need = max(need, largest) // M^cal: local experts are to be no slower than remote ones
		rows := set.Rows(r.Most, s.TopK, s.Experts, away)
		if float64(away)*s.Expert+s.Token*rows > largest {
			return m, false
		}
	}
	m = Main{Away: away, Ratio: float64(away) / float64(s.Experts)}
	for _, size := range s.Main {
		if size >= need {
			m.Memory = size
			break
		}
	}
	if m.Memory == 0 {
		return m, false
	}
	p.Main = m.Memory
	cold, _ := s.Start(p, r.Most+r.Output, r.Decided)
	m.TTFT = cold + float64(s.Layers)*worstPrefill(s, r, set.Bound, m, largest)
	m.TPOT = float64(s.Layers) * worstDecode(s, r, set.Bound, m, largest)
	return m, true
}

// uniform is a plan with as many remote experts in each layer, the first ones.
func uniform(s *serverless.System, away int, memory float64, replicas int) *serverless.Plan {
	p := &serverless.Plan{Layers: make([]serverless.Layer, s.Layers)}
	for l := range p.Layers {
		p.Layers[l] = serverless.Layer{Remote: make([]bool, s.Experts), Memory: memory, Replicas: replicas}
		for e := range away {
			p.Layers[l].Remote[e] = true
		}
	}
	return p
}

// worstPrefill is what a layer takes in prefill if local and remote experts have as many rows as
// the bound allows, the remote ones with the best number of replicas.
func worstPrefill(s *serverless.System, r Request, b Bound, m Main, memory float64) float64 {
	local := most(s.Experts-m.Away, b.Rows(r.Most, s.TopK, s.Experts, s.Experts-m.Away), float64(r.Most), func(n float64) float64 { return s.Compute(m.Memory, n) })
	remote := 0.0
	if m.Away > 0 {
		each := func(n float64) float64 { return s.Compute(memory, n) + n*s.Travel() }
		all := most(m.Away, b.Rows(r.Most, s.TopK, s.Experts, m.Away), float64(r.Most), each)
		one := each(b.Rows(r.Most, s.TopK, s.Experts, 1))
		remote = replicated(all, one, s.Overhead(), 1)
		for z := 2; z <= s.Replicas; z++ {
			remote = min(remote, replicated(all, one, s.Overhead(), z))
		}
	}
	return max(local, remote) + 2*s.Move(r.Most) + s.NonExpert(r.Most)
}

// replicated is theorem 4: what the slowest of z replicas takes that share work by LPT, of which
// an expert takes so much at most.
func replicated(all, one, overhead float64, z int) float64 {
	return float64(z-1)/float64(z)*one + all/float64(z) + overhead
}

// worstDecode is what a token takes in a layer, in the mean of the output, if as many rows are
// remote as the bound allows.
func worstDecode(s *serverless.System, r Request, b Bound, m Main, memory float64) float64 {
	mean := 0.0
	if r.Output > 0 {
		mean = b.Rows(r.Output, s.TopK, s.Experts, m.Away) / float64(r.Output)
	}
	f := make([]float64, min(s.TopK, m.Away)+1)
	for away := range f {
		f[away], _ = s.DecodeExperts(m.Memory, memory, away, s.Mean())
	}
	return s.NonExpert(1) + even(f, mean)
}

// Decision is a plan of a request, and how it came about.
type Decision struct {
	serverless.Plan
	Main     Main
	Memory   Memory
	Expected serverless.Bill    // by what was foretold
	Limits   []serverless.Limit // that the plan is expected to break: none where the worst case holds
}

// Decide plans a request of which an activation is foretold.
func Decide(s *serverless.System, r Request, activation []float32, set Settings) (*Decision, error) {
	m, err := Preallocate(s, r, set)
	if err != nil {
		return nil, err
	}
	return After(s, r, m, activation, set, false)
}

// After plans what is left when the main model has been decided on. With exact it also finds the
// best sizes that functions could have, for comparison.
func After(s *serverless.System, r Request, m Main, activation []float32, set Settings, exact bool) (*Decision, error) {
	if len(activation) != s.Layers*s.Experts {
		return nil, fmt.Errorf("the activation has %d values; %d layers of %d experts need %d", len(activation), s.Layers, s.Experts, s.Layers*s.Experts)
	}
	d := s.Expected(activation, r.Prompt, r.Output)
	if err := d.Check(s.Model); err != nil {
		return nil, fmt.Errorf("what is foretold: %w", err)
	}
	return planned(s, r, m, &d, set, exact)
}

// Known is After for a request whose rows are known.
func Known(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings) (*Decision, error) {
	return planned(s, r, m, d, set, false)
}

// planned decides x, y and z by a demand.
func planned(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings, exact bool) (*Decision, error) {
	return layered(s, r, m, d, set, exact, func(int) int { return m.Away })
}

// layered is planned with so many remote experts of each layer.
func layered(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings, exact bool, away func(layer int) int) (*Decision, error) {
	sizes := s.Sizes()
	to := &Decision{Main: m}
	to.Plan = *uniform(s, 0, sizes[len(sizes)-1], 1)
	to.Plan.Main = m.Memory
	for l := range to.Layers {
		to.Layers[l].Remote = selected(&d.Layers[l], away(l))
	}
	set.done(StageExperts)
	var err error
	if to.Memory, err = memory(s, &to.Plan, d, r.SLO, set.Sizing, exact); err != nil {
		return nil, err
	}
	set.done(StageMemory)
	replicas(s, &to.Plan, d, r, set.Bound)
	set.done(StageReplicas)
	to.Expected = s.Serve(&to.Plan, d, r.Decided)
	to.Limits = s.LimitsOf(&to.Plan, d, r.SLO, func() serverless.Bill { return to.Expected })
	return to, nil
}

// selected are the remote experts of a layer: as many as there are to be of those with the lowest
// utility, which is the rows that are expected of them in prefill and decode (section IV-D). Ties
// go to the lower expert.
func selected(r *serverless.Rows, away int) []bool {
	order := make([]int, len(r.Prefill))
	for e := range order {
		order[e] = e
	}
	utility := func(e int) float64 { return r.Prefill[e] + r.Decode[e] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(utility(a), utility(b)) })
	remote := make([]bool, len(order))
	for _, e := range order[:away] {
		remote[e] = true
	}
	return remote
}
