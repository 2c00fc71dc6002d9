package directives

import (
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrIllegal is wrapped by what is wrong with a value of the bucket.
var ErrIllegal = errors.New("no legal directive")

// Rules say what directives of a model may be.
type Rules struct {
	Model     uint64
	MoELayers []int
	Experts   int
	// Illegal, if set, is called for each value that is not believed.
	Illegal func(error)
}

// Check says what is wrong with a directive at a revision of its key. A version grows by one
// while the revision, which the server counts, grows by one or more: a larger one is a forgery.
func (r Rules) Check(d *pb.Directive, revision uint64) error {
	switch {
	case d.GetModel() != r.Model:
		return fmt.Errorf("%w: it is of model %016x, not %016x", ErrIllegal, d.GetModel(), r.Model)
	case d.Version == 0 || d.Version > revision:
		return fmt.Errorf("%w: revision %d has version %d", ErrIllegal, revision, d.Version)
	case d.FloorMillionths > brownout.One:
		return fmt.Errorf("%w: its floor is %d millionths; it must be 0 to %d", ErrIllegal, d.FloorMillionths, brownout.One)
	case len(d.Exempt) > len(r.MoELayers) || !slices.IsSorted(d.Exempt):
		return fmt.Errorf("%w: it exempts layers %v; there are %d, and it must name them in their order", ErrIllegal, d.Exempt, len(r.MoELayers))
	}
	for _, l := range d.Exempt {
		if !slices.Contains(r.MoELayers, int(l)) {
			return fmt.Errorf("%w: it exempts layer %d, which has no experts", ErrIllegal, l)
		}
	}
	for _, threshold := range []uint32{d.PrefillMillionths, d.DecodeMillionths} {
		s := brownout.Settings{Strategy: brownout.Strategy(max(0, min(d.Strategy, 255))), Way: int(d.Way), Threshold: int(threshold)}
		if err := s.Check(r.Experts); err != nil {
			return fmt.Errorf("%w: %w", ErrIllegal, err)
		}
	}
	return nil
}

// CheckSettings says what is wrong with what an operator wants of any model. A way that there are no united
// experts of is legal: the controller says that it does not use it, and does all else.
func CheckSettings(s *pb.BrownoutSettings) error {
	switch {
	case s.Mode > pb.BrownoutMode_BROWNOUT_MODE_OFF || s.Mode < 0:
		return fmt.Errorf("%w: mode %d is unknown", ErrIllegal, s.Mode)
	case s.PrefillMillionths > brownout.One || s.DecodeMillionths > brownout.One:
		return fmt.Errorf("%w: thresholds are %d and %d millionths; they must be 0 to %d", ErrIllegal, s.PrefillMillionths, s.DecodeMillionths, brownout.One)
	case s.Way == 1:
		return fmt.Errorf("%w: the way is 1; a united expert stands in for at least 2 experts", ErrIllegal)
	}
	return nil
}

func stale(from, to uint64) error {
	return fmt.Errorf("%w: its version went from %d to %d", ErrIllegal, from, to)
}
