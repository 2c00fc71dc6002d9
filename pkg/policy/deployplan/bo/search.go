package bo

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// State is a search between two rounds: all that is needed to go on with it.
type State struct {
	Settings Settings
	Trials   []Trial // the first one leaves the table as it is
	// Epsilon are those of variables of L, and of the others.
	Epsilon [2]float64
	Drawn   uint64 // state of the draws
	// Below is the first round whose largest ε was below delta; 0: none yet.
	Below int
}

// delta is the small positive constant of theorem 2.
const delta = 0.01

// Search looks for the table whose plan costs least.
type Search struct {
	*Problem
	State
	tokens            []uint32 // of the learning batches
	wrong             []uint32 // of those of them that were mispredicted: L
	largest, farthest uint32   // value and position
}

// New begins a search with a round that leaves the table as it is.
func New(p *Problem, set Settings) (*Search, error) {
	s := &Search{Problem: p, State: State{Settings: set, Epsilon: [2]float64{set.Epsilon, set.Epsilon}, Drawn: splitmix.Mix(set.Seed ^ 0xb0)}}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	return s, s.add(make([]bayes.Pair, set.Q))
}

// Resume goes on with a search.
func Resume(p *Problem, state State) (*Search, error) {
	s := &Search{Problem: p, State: state}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if len(state.Trials) == 0 {
		return nil, fmt.Errorf("%w: the search that is to go on has no rounds; begin it anew", ErrSettings)
	}
	for i := range state.Trials {
		if t := &state.Trials[i]; len(t.Pairs) != state.Settings.Q || p.System.CheckLoads(t.Loads) != nil || !s.hasBatches(t.Wrong) {
			return nil, fmt.Errorf("%w: round %d of the search that is to go on is of another model or other settings; begin it anew", ErrSettings, i)
		}
		if _, err := p.Table.With(set(state.Trials[i].Pairs)); err != nil {
			return nil, err
		}
		s.learn(&state.Trials[i])
	}
	return s, nil
}

func (s *Search) prepare() error {
	if err := s.Settings.Check(); err != nil {
		return err
	}
	if err := s.Problem.Check(); err != nil {
		return err
	}
	for i := range s.Batches {
		s.tokens = append(s.tokens, s.Batches[i].Rows.Tokens...)
	}
	s.tokens = unique(s.tokens)
	s.largest, s.farthest = s.Table.Largest()
	if keys := keySpace(s.Table, s.farthest); float64(s.Settings.Q) > keys {
		return fmt.Errorf("%w: %d pairs are to be changed, and a table of this model has %.0f keys; change fewer", ErrSettings, s.Settings.Q, keys)
	}
	return nil
}

// keySpace is how many keys a table can have.
func keySpace(t *bayes.Table, farthest uint32) float64 {
	return float64(len(t.Layers)) * float64(t.Experts) * float64(t.Vocab) * float64(t.Vocab) * (float64(farthest) + 1)
}

func unique(tokens []uint32) []uint32 {
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// Step is a round.
func (s *Search) Step() error {
	pairs, err := s.acquire()
	if err != nil {
		return err
	}
	if err := s.add(pairs); err != nil {
		return err
	}
	s.decay(s.Trials[len(s.Trials)-1].Case)
	return nil
}

func (s *Search) add(pairs []bayes.Pair) error {
	t, err := s.try(pairs, s.Settings.Alpha)
	if err != nil {
		return err
	}
	s.Trials = append(s.Trials, *t)
	s.learn(t)
	return nil
}

// learn puts the tokens of mispredicted batches into L.
func (s *Search) learn(t *Trial) {
	for _, i := range t.Wrong {
		s.wrong = append(s.wrong, s.Batches[i].Rows.Tokens...)
	}
	s.wrong = unique(s.wrong)
}

func (s *Search) hasBatches(all []int) bool {
	return !slices.ContainsFunc(all, func(i int) bool { return i < 0 || i >= len(s.Batches) })
}

// decay makes ε smaller: by 1 + ρτ, and for variables of L by less after a round that fitted badly.
func (s *Search) decay(c Case) {
	set, round := &s.Settings, float64(len(s.Trials)-1)
	by := 1 + set.Rho*round
	slow := 1.0
	switch {
	case set.Acquisition == Single || c == Fits:
	case c == TooLittle:
		slow = 1 + set.Slow[0]*round
	case c == TooLarge:
		slow = 1 + set.Slow[1]*round
	default:
		slow = 1 + set.Slow[2]*round
	}
	s.Epsilon[0], s.Epsilon[1] = s.Epsilon[0]*slow/by, s.Epsilon[1]/by
	if s.Below == 0 && max(s.Epsilon[0], s.Epsilon[1]) < delta {
		s.Below = len(s.Trials) - 1
	}
}

// Best is the trial that costs least; of equal ones the earliest.
func (s *State) Best() *Trial {
	best := &s.Trials[0]
	for i := range s.Trials {
		if s.Trials[i].Cost < best.Cost {
			best = &s.Trials[i]
		}
	}
	return best
}

// Done says whether the least cost has stopped moving.
func (s *State) Done() bool {
	n := len(s.Trials) - s.Settings.Lambda
	if n < 1 {
		return false
	}
	before := math.Inf(1)
	for _, t := range s.Trials[:n] {
		before = min(before, t.Cost)
	}
	return before-s.Best().Cost < s.Settings.Zeta*before
}

// Tuned is the table of the best trial.
func (s *Search) Tuned() (*bayes.Table, error) { return s.Table.With(set(s.Best().Pairs)) }
