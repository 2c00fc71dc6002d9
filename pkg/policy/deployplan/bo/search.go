package bo

import (
	"errors"
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

// Done reports whether the least cost has stopped moving.
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

// Acquisition is how the next round's variables are chosen.
type Acquisition string

// The acquisitions: the paper's, and those that it is compared with.
const (
	Multi  Acquisition = "multi"  // an ε of each variable
	Single Acquisition = "single" // one ε of all
	Random Acquisition = "random" // all are drawn
	TPE    Acquisition = "tpe"    // tree-structured Parzen estimator
)

// Acquisitions are all of them.
var Acquisitions = []Acquisition{Multi, Single, Random, TPE}

// Settings are those of a search. All but Q are assumed: the paper has no numbers.
type Settings struct {
	Acquisition Acquisition `json:"acquisition"`
	Q           int         `json:"pairs"`   // variables
	Mu          float64     `json:"mu"`      // share of them that is of L
	Epsilon     float64     `json:"epsilon"` // at the beginning: ε0
	// Rho is how quickly ε decays, and Slow how much more slowly that of L does after a round of
	// case (i), (ii) and (iii): ρ1, ρ2 and ρ3.
	Rho  float64    `json:"rho"`
	Slow [3]float64 `json:"rho_of_cases"`
	// Alpha is how many rows of a replica may be foretold wrongly.
	Alpha float64 `json:"alpha"`
	// It ends when the least cost has moved by less than Zeta, as a part, over Lambda rounds.
	Zeta   float64 `json:"zeta"`
	Lambda int     `json:"lambda"`
	// Fresh is how many candidates are drawn in a round beside those of the past.
	Fresh int    `json:"fresh"`
	Seed  uint64 `json:"seed"`
}

// Default are settings with the paper's Q and what is assumed.
func Default() Settings {
	return Settings{
		Acquisition: Multi, Q: 1000, Mu: 0.5, Epsilon: 0.9, Rho: 0.2, Slow: [3]float64{0.15, 0.1, 0.05}, Alpha: 8, Zeta: 0.001, Lambda: 8, Fresh: 8, Seed: 1,
	}
}

// ErrSettings says that a search cannot be begun.
var ErrSettings = errors.New("a search that cannot be")

// MostPairs bounds variables and candidates of a round.
const MostPairs = 1 << 16

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...)
	}
	switch {
	case !slices.Contains(Acquisitions, s.Acquisition):
		return wrong("acquisition %q is unknown; there are %v", s.Acquisition, Acquisitions)
	case s.Q < 1 || s.Q > MostPairs || s.Fresh < 0 || s.Fresh > MostPairs || s.Lambda < 1:
		return wrong("%d pairs are changed, %d candidates drawn and %d rounds looked at; pairs and rounds must be 1 or more, and pairs and candidates %d at most", s.Q, s.Fresh, s.Lambda, MostPairs)
	case !(s.Mu >= 0 && s.Mu <= 1 && s.Epsilon >= 0 && s.Epsilon <= 1):
		return wrong("mu is %v and epsilon %v; both are shares, from 0 to 1", s.Mu, s.Epsilon)
	case !(s.Rho > s.Slow[0] && s.Slow[0] > s.Slow[1] && s.Slow[1] > s.Slow[2] && s.Slow[2] >= 0) || math.IsInf(s.Rho, 0):
		return wrong("rho is %v and those of the cases are %v; each must be below the one before it, and 0 or above", s.Rho, s.Slow)
	case !(s.Alpha >= 0 && s.Zeta >= 0) || math.IsInf(s.Alpha+s.Zeta, 0):
		return wrong("alpha is %v and zeta %v; both must be finite, and 0 or above", s.Alpha, s.Zeta)
	}
	return nil
}

// Rounds is theorem 2: after how many of them ε is below delta.
func (s *Settings) Rounds(delta float64) float64 {
	return (1 + s.Rho) / (s.Rho - s.Slow[0]) * (1 - delta/s.Epsilon)
}
