package bo

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

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
