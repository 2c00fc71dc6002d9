package claims

import (
	"fmt"
	"math"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// perOctave is how many classes of rows there are between a number and its double: a
	// layer's time grows with its rows, and is compared with that of as many.
	perOctave = 2
	// Classes are all classes of a layer.
	Classes = 64
	// MaxDispatches is more than a step of a layer has.
	MaxDispatches = 1 << 16
	// MaxWaiting is more requests than wait in a replica.
	MaxWaiting = 1 << 16
)

// Class is the class of so many rows of a step.
func Class(rows float64) int {
	return min(max(0, int(perOctave*math.Log2(max(1, rows)))), Classes-1)
}

// longest is more nanoseconds than a layer of a step takes: an hour.
const longest = 3600 * 1_000_000_000

// checkTimes wants what layers can take, and nothing of hosts or experts.
func checkTimes(s *pb.LoadSample) error {
	switch {
	case len(s.Expert)+len(s.Rows)+len(s.Total)+len(s.Functions)+len(s.Steps)+len(s.Units) > 0 || s.Memory != nil:
		return fmt.Errorf("%w: a %v tells of experts", ErrSample, s.Source)
	case len(s.Times) == 0 && s.Waiting == nil || len(s.Times) > Classes:
		return fmt.Errorf("%w: times of %d classes of rows, want 1 to %d, or requests that wait", ErrSample, len(s.Times), Classes)
	case s.GetWaiting() > MaxWaiting:
		return fmt.Errorf("%w: %d requests wait in a replica, want at most %d", ErrSample, s.GetWaiting(), MaxWaiting)
	}
	for _, c := range s.Times {
		if err := checkTime(c); err != nil {
			return err
		}
	}
	return nil
}

func checkTime(c *pb.LayerTime) error {
	switch {
	case c.GetSteps() == 0 || c.Steps > MaxSteps || c.Rows < c.Steps || c.Rows > c.Steps*MaxStepRows:
		return fmt.Errorf("%w: a time of %d steps with %d rows, want 1 to %d steps with 1 to %d rows each", ErrSample, c.GetSteps(), c.GetRows(), MaxSteps, MaxStepRows)
	case c.TotalNs == 0 || c.TotalNs > c.Steps*longest || c.MessageNs > c.TotalNs:
		return fmt.Errorf("%w: %d steps took %d ns, %d of it messages, want above 0, at most an hour each, and no more of messages", ErrSample, c.Steps, c.TotalNs, c.MessageNs)
	case c.Dispatches > c.Steps*MaxDispatches || c.Squares > c.Dispatches*MaxDispatches || float64(c.Products) > float64(c.MessageNs)*MaxDispatches:
		return fmt.Errorf("%w: %d dispatches in %d steps, squares %d, products %d, which cannot be", ErrSample, c.Dispatches, c.Steps, c.Squares, c.Products)
	}
	return nil
}
