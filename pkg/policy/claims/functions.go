package claims

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// functionsPerExpert is for the functions of two plans.
const functionsPerExpert = 8

// isFunctionID reports whether an id has a function's form.
func isFunctionID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(id) == 16
}

// checkFunctions wants no more functions than a host has while one plan follows
// another, and numbers that can be.
func (l Limits) checkFunctions(all []*pb.FunctionLoad) error {
	if most := functionsPerExpert * l.Experts; len(all) > most {
		return fmt.Errorf("%w: %d functions, want at most %d", ErrSample, len(all), most)
	}
	for _, f := range all {
		if err := l.checkFunction(f); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) checkFunction(f *pb.FunctionLoad) error {
	switch {
	case !isFunctionID(f.Id):
		return fmt.Errorf("%w: function %.32q has no id of 16 hexadecimal digits", ErrSample, f.Id)
	case len(f.Expert) == 0:
		return fmt.Errorf("%w: function %s has no experts", ErrSample, f.Id)
	case f.Messages > maxRows || f.Rows > maxRows:
		return fmt.Errorf("%w: function %s with %d messages of %d rows, want at most %d", ErrSample, f.Id, f.Messages, f.Rows, uint64(maxRows))
	case max(f.QueueNs, f.StallNs, f.ComputeNs) > maxTotal:
		return fmt.Errorf("%w: function %s waited %d and %d ns and computed %d, want at most %d",
			ErrSample, f.Id, f.QueueNs, f.StallNs, f.ComputeNs, uint64(maxTotal))
	}
	return l.checkIDs(f.Expert)
}

// checkMemory refuses a host that claims to hold what it cannot; nil is no claim.
func checkMemory(m *pb.HostLoad) error {
	switch {
	case m == nil:
		return nil
	case max(m.BudgetBytes, m.UsedBytes, m.ColdStarts, m.ColdStartNs) > maxTotal:
		return fmt.Errorf("%w: a host with %d bytes of %d and %d cold starts of %d ns, want at most %d",
			ErrSample, m.UsedBytes, m.BudgetBytes, m.ColdStarts, m.ColdStartNs, uint64(maxTotal))
	case m.BudgetBytes > 0 && m.UsedBytes > m.BudgetBytes:
		return fmt.Errorf("%w: a host that holds %d bytes of the %d that it may", ErrSample, m.UsedBytes, m.BudgetBytes)
	}
	if err := checkUse(m.Use); err != nil {
		return err
	}
	return checkGPU(m.Gpu)
}

// maxGBs is more than any host has: a hundred terabytes for ten years.
const maxGBs = 1e14

// checkUse refuses sums of memory that cannot be; nil is no claim.
func checkUse(u *pb.MemoryUse) error {
	for name, v := range map[string]float64{
		"loading": u.GetLoadingGbS(), "kept": u.GetKeptGbS(), "serving": u.GetServingGbS(), "taken": u.GetTakenGbS(), "seconds": u.GetSeconds(),
	} {
		if !(v >= 0 && v <= maxGBs) {
			return fmt.Errorf("%w: sum %q of memory is %v, want 0 to %v", ErrSample, name, v, maxGBs)
		}
	}
	if u.GetLoads() > maxTotal || u.GetPeakBytes() > maxTotal {
		return fmt.Errorf("%w: a host with %d loads and %d bytes at once, want at most %d", ErrSample, u.GetLoads(), u.GetPeakBytes(), uint64(maxTotal))
	}
	return nil
}

// maxFigures is more than a GPU says of itself.
const maxFigures = 64

// checkGPU refuses figures that are none.
func checkGPU(figures map[string]float64) error {
	if len(figures) > maxFigures {
		return fmt.Errorf("%w: %d figures of a GPU, want at most %d", ErrSample, len(figures), maxFigures)
	}
	for name, v := range figures {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%w: a GPU's %.64q is %v", ErrSample, name, v)
		}
	}
	return nil
}

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
