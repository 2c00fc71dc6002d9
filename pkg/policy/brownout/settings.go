package brownout

import (
	"errors"
	"fmt"
	"math"
)

// One is a threshold of 1: every row has its own expert.
const One = 1_000_000

// Strategy says what becomes of the rows of experts in S2.
type Strategy uint8

// The strategies, with the numbers that messages carry; 0 is none.
const (
	Partial Strategy = 1 // the united expert of the group computes them
	Full    Strategy = 2 // nothing is added for them
)

func (s Strategy) String() string {
	switch s {
	case Partial:
		return "partial"
	case Full:
		return "full"
	}
	return fmt.Sprintf("strategy %d", uint8(s))
}

// ErrSettings says that a brownout cannot be as it is asked for.
var ErrSettings = errors.New("this brownout cannot be")

// ParseStrategy reads what String writes.
func ParseStrategy(text string) (Strategy, error) {
	for _, s := range []Strategy{Partial, Full} {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: there is no strategy %q; there are partial and full", ErrSettings, text)
}

// Millionths is a threshold from 0 to 1 as Split wants it.
func Millionths(threshold float64) (int, error) {
	if !(threshold >= 0 && threshold <= 1) {
		return 0, fmt.Errorf("%w: a threshold is %v; it must be from 0, where no expert keeps its rows, to 1, where all do", ErrSettings, threshold)
	}
	return int(math.Round(threshold * One)), nil
}

// Settings are how a layer is split.
type Settings struct {
	Strategy  Strategy
	Way       int // experts of a group
	Threshold int // millionths
	// Without says of which groups there is no united expert; nil is none. Their experts run
	// themselves.
	Without []bool
	// Grouping is that of the united experts; nil is by the experts' numbers.
	Grouping *Grouping
}

// Check says what is wrong with settings for a layer of so many experts.
func (s Settings) Check(experts int) error {
	switch {
	case s.Strategy != Partial && s.Strategy != Full:
		return fmt.Errorf("%w: %v is unknown; there are partial and full", ErrSettings, s.Strategy)
	case s.Threshold < 0 || s.Threshold > One:
		return fmt.Errorf("%w: a threshold is %d millionths; it must be 0 to %d", ErrSettings, s.Threshold, One)
	case !s.Grouping.fits(experts):
		return fmt.Errorf("%w: it is grouped as a layer of %d experts, and this one has %d", ErrSettings, len(s.Grouping.order), experts)
	case s.Strategy == Partial && (s.Way < 2 || s.Way > experts):
		return fmt.Errorf("%w: the way is %d; a united expert stands in for at least 2 experts, and a layer has %d", ErrSettings, s.Way, experts)
	case s.Without != nil && s.Strategy == Partial && len(s.Without) != Groups(experts, s.Way):
		return fmt.Errorf("%w: it is told of %d groups whether they have united experts; there are %d", ErrSettings, len(s.Without), Groups(experts, s.Way))
	}
	return nil
}

// Groups is how many groups experts have by a way. The last one may be smaller.
func Groups(experts, way int) int { return (experts + way - 1) / way }
