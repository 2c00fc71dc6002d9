// Package claims says what a legal sample of experts' loads is (Limits), by what hosts, gates,
// predictors and attention can tell.
package claims

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Limits are what samples may claim.
type Limits struct {
	// Model is the hash that samples carry.
	Model uint64
	// Layers, Experts and Hosts bound what a tally remembers.
	Layers, Experts, Hosts int
	// MoE says which layers have experts; nil: all of them may.
	MoE []bool
	// TopK is how many experts each row has; 0: not known here, and sums are not checked.
	TopK int
	// Entries bounds the totals that it keeps: one for each expert of a layer on
	// each host that has computed with it.
	Entries int
}

const (
	// maxRows is more rows than an expert computes between two samples.
	maxRows = 1 << 32
	// maxTotal is the largest number that every reader of JSON has exactly.
	maxTotal = 1 << 53
)

// ErrSample is wrapped by what is wrong with a sample.
var ErrSample = errors.New("load sample")

// Check refuses a sample that nobody of the model sends.
func (l Limits) Check(s *pb.LoadSample) error {
	switch {
	case s.Version != schemas.Version || s.Model != l.Model:
		return fmt.Errorf("%w: of version %d and model %016x, want %d and %016x", ErrSample, s.Version, s.Model, schemas.Version, l.Model)
	case !schemas.IsReplicaID(s.Host):
		return fmt.Errorf("%w: host %.64q is no replica's id", ErrSample, s.Host)
	case uint64(s.Layer) >= uint64(l.Layers):
		return fmt.Errorf("%w: layer %d, want less than %d", ErrSample, s.Layer, l.Layers)
	case l.MoE != nil && !l.MoE[s.Layer]:
		return fmt.Errorf("%w: layer %d has no experts", ErrSample, s.Layer)
	case s.SpanMs == 0:
		return fmt.Errorf("%w: a span of no time", ErrSample)
	}
	switch s.Source {
	case pb.LoadSource_LOAD_SOURCE_UNSPECIFIED:
		return l.checkHost(s)
	case pb.LoadSource_LOAD_SOURCE_ATTENTION:
		return checkTimes(s)
	}
	return l.checkSteps(s)
}

// checkHost wants something of a host, and nothing of others.
func (l Limits) checkHost(s *pb.LoadSample) error {
	switch {
	case len(s.Expert) != len(s.Rows) || len(s.Expert) != len(s.Total):
		return fmt.Errorf("%w: %d experts with %d counts of rows and %d totals", ErrSample, len(s.Expert), len(s.Rows), len(s.Total))
	case len(s.Expert) == 0 && len(s.Functions) == 0 && s.Memory == nil:
		return fmt.Errorf("%w: 0 experts, functions and memories", ErrSample)
	case len(s.Steps) > 0:
		return fmt.Errorf("%w: %d steps of a host, which sees none", ErrSample, len(s.Steps))
	case len(s.Times) > 0 || s.Waiting != nil:
		return fmt.Errorf("%w: %d times of a host, which measures none, and %d requests that wait", ErrSample, len(s.Times), s.GetWaiting())
	}
	if err := l.checkExperts(s); err != nil {
		return err
	}
	if err := l.checkFunctions(s.Functions); err != nil {
		return err
	}
	if err := checkUse(s.Use); err != nil {
		return err
	}
	return checkMemory(s.Memory)
}

// checkExperts wants ids in range that ascend, each with a total that has its rows.
func (l Limits) checkExperts(s *pb.LoadSample) error {
	if err := l.checkIDs(s.Expert); err != nil {
		return err
	}
	for i, e := range s.Expert {
		switch {
		case s.Rows[i] > maxRows:
			return fmt.Errorf("%w: %d rows of expert %d, want at most %d", ErrSample, s.Rows[i], e, uint64(maxRows))
		case s.Total[i] == 0 || s.Total[i] < s.Rows[i] || s.Total[i] > maxTotal:
			return fmt.Errorf("%w: a total of %d for expert %d with %d rows, want 1 to %d and no less than the rows",
				ErrSample, s.Total[i], e, s.Rows[i], uint64(maxTotal))
		}
	}
	return nil
}

// checkIDs wants ids in range that ascend.
func (l Limits) checkIDs(experts []uint32) error {
	for i, e := range experts {
		switch {
		case uint64(e) >= uint64(l.Experts):
			return fmt.Errorf("%w: expert %d, want less than %d", ErrSample, e, l.Experts)
		case i > 0 && e <= experts[i-1]:
			return fmt.Errorf("%w: expert %d after expert %d", ErrSample, e, experts[i-1])
		}
	}
	return nil
}
