package claims

import (
	"fmt"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// MaxSteps bounds the microbatches of one sample.
	MaxSteps = 4096
	// MaxStepRows is more rows than a microbatch has.
	MaxStepRows = 1 << 20
	// maxParts bounds the parts of a sum: all their rows can be counted.
	maxParts = 1 << 12
)

// checkSteps wants microbatches as gates count them or predictors expect them, and
// nothing of hosts.
func (l Limits) checkSteps(s *pb.LoadSample) error {
	switch {
	case s.Source != pb.LoadSource_LOAD_SOURCE_GATE && s.Source != pb.LoadSource_LOAD_SOURCE_PREDICTOR:
		return fmt.Errorf("%w: of source %d, which is not known", ErrSample, s.Source)
	case len(s.Expert)+len(s.Rows)+len(s.Total)+len(s.Functions)+len(s.Times) > 0 || s.Memory != nil || s.Use != nil || s.Waiting != nil:
		return fmt.Errorf("%w: a %v tells of a host", ErrSample, s.Source)
	case len(s.Steps) == 0 || len(s.Steps) > MaxSteps:
		return fmt.Errorf("%w: %d steps, want 1 to %d", ErrSample, len(s.Steps), MaxSteps)
	}
	for _, step := range s.Steps {
		if err := l.checkStep(s, step); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) checkStep(s *pb.LoadSample, step *pb.StepLoad) error {
	predicted := s.Source == pb.LoadSource_LOAD_SOURCE_PREDICTOR
	switch {
	case !schemas.IsReplicaID(step.Owner):
		return fmt.Errorf("%w: owner %.64q is no replica's id", ErrSample, step.Owner)
	case step.Parts > maxParts:
		return fmt.Errorf("%w: a sum of %d parts, want at most %d", ErrSample, step.Parts, maxParts)
	case step.Rows == 0 || step.Rows/max(1, step.Parts) > MaxStepRows || step.PrefillRows > step.Rows:
		return fmt.Errorf("%w: %d rows of a step, %d of prompts, in %d parts, want 1 to %d each and no more of prompts",
			ErrSample, step.Rows, step.PrefillRows, max(1, step.Parts), MaxStepRows)
	case predicted != (step.Distance > 0) || step.Distance > s.Layer:
		return fmt.Errorf("%w: a %v's step of layer %d with distance %d", ErrSample, s.Source, s.Layer, step.Distance)
	case len(step.Expert) != len(step.Count):
		return fmt.Errorf("%w: %d experts of a step with %d counts", ErrSample, len(step.Expert), len(step.Count))
	}
	if err := l.checkIDs(step.Expert); err != nil {
		return err
	}
	if err := l.checkServed(step, predicted); err != nil {
		return err
	}
	return l.checkCounts(step, predicted)
}

// checkServed wants of a brownout no more rows than there were: some of them are the experts', and
// some those of units that stand in for experts.
func (l Limits) checkServed(step *pb.StepLoad, predicted bool) error {
	if len(step.Served) == 0 && len(step.Units) == 0 {
		return nil
	}
	if predicted || len(step.Served) != len(step.Count) {
		return fmt.Errorf("%w: %d experts of a step of which %d are served, and %d kinds of stand-ins", ErrSample, len(step.Count), len(step.Served), len(step.Units))
	}
	left := uint64(0)
	for i, n := range step.Served {
		if n > step.Count[i] {
			return fmt.Errorf("%w: %d of %d rows of expert %d are served", ErrSample, n, step.Count[i], step.Expert[i])
		}
		left += uint64(step.Count[i] - n)
	}
	for _, u := range step.Units {
		if len(u.GetUnit()) == 0 || len(u.GetUnit()) != len(u.GetRows()) {
			return fmt.Errorf("%w: %d stand-ins with %d counts of rows", ErrSample, len(u.GetUnit()), len(u.GetRows()))
		}
		if err := l.checkIDs(u.Unit); err != nil {
			return err
		}
		for _, n := range u.Rows {
			if n > left {
				return fmt.Errorf("%w: stand-ins with more rows than experts gave up", ErrSample)
			}
			left -= n
		}
	}
	return nil
}

// checkCounts wants counts that add up: a row goes to an expert once, and to as
// many as the model says. A predictor rounds each expert's.
func (l Limits) checkCounts(step *pb.StepLoad, predicted bool) error {
	sum, off := uint64(0), uint64(0)
	if predicted {
		off = uint64(l.Experts) * uint64(max(1, step.Parts))
	}
	for i, n := range step.Count {
		if n == 0 || !predicted && n > step.Rows {
			return fmt.Errorf("%w: %d of %d rows for expert %d", ErrSample, n, step.Rows, step.Expert[i])
		}
		sum += uint64(n)
	}
	if want := uint64(step.Rows) * uint64(l.TopK); l.TopK > 0 && (sum > want+off || sum+off < want) {
		return fmt.Errorf("%w: counts of a step add up to %d, want %d rows with %d experts each", ErrSample, sum, step.Rows, l.TopK)
	}
	return nil
}
