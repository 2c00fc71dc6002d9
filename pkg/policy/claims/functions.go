package claims

import (
	"fmt"
	"math"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// functionsPerExpert is for the functions of two plans.
const functionsPerExpert = 8

// isFunctionID says whether an id has a function's form.
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
