package loads

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Limits are what samples may claim.
type Limits struct {
	// Model is the hash that samples carry.
	Model uint64
	// Layers, Experts and Hosts bound what a tally remembers.
	Layers, Experts, Hosts int
}

// maxRows is more rows than an expert computes between two samples; below it
// sums of samples are exact for years.
const maxRows = 1 << 32

// ErrSample is wrapped by what is wrong with a sample.
var ErrSample = errors.New("load sample")

// Check refuses a sample that no host of the model sends.
func (l Limits) Check(s *pb.LoadSample) error {
	switch {
	case s.Version != schemas.Version || s.Model != l.Model:
		return fmt.Errorf("%w: of version %d and model %016x, want %d and %016x", ErrSample, s.Version, s.Model, schemas.Version, l.Model)
	case !schemas.IsReplicaID(s.Host):
		return fmt.Errorf("%w: host %.64q is no replica's id", ErrSample, s.Host)
	case uint64(s.Layer) >= uint64(l.Layers):
		return fmt.Errorf("%w: layer %d, want less than %d", ErrSample, s.Layer, l.Layers)
	case s.SpanMs == 0:
		return fmt.Errorf("%w: a span of no time", ErrSample)
	case len(s.Expert) == 0 || len(s.Expert) != len(s.Rows):
		return fmt.Errorf("%w: %d experts with %d counts of rows", ErrSample, len(s.Expert), len(s.Rows))
	}
	return l.checkExperts(s)
}

// checkExperts wants ids in range that ascend, each with rows.
func (l Limits) checkExperts(s *pb.LoadSample) error {
	for i, e := range s.Expert {
		switch {
		case uint64(e) >= uint64(l.Experts):
			return fmt.Errorf("%w: expert %d, want less than %d", ErrSample, e, l.Experts)
		case i > 0 && e <= s.Expert[i-1]:
			return fmt.Errorf("%w: expert %d after expert %d", ErrSample, e, s.Expert[i-1])
		case s.Rows[i] == 0 || s.Rows[i] > maxRows:
			return fmt.Errorf("%w: %d rows of expert %d, want 1 to %d", ErrSample, s.Rows[i], e, uint64(maxRows))
		}
	}
	return nil
}

// Layer has the rows of a layer's experts, by expert id, up to the last one
// that had any.
type Layer struct {
	Layer int
	Rows  []uint64
}

// Tally adds samples up. It is safe for concurrent use.
type Tally struct {
	limits Limits

	mu      sync.Mutex
	layers  map[uint32][]uint64
	hosts   map[string]bool
	refused uint64
}

// NewTally starts from nothing.
func NewTally(l Limits) *Tally {
	return &Tally{limits: l, layers: map[uint32][]uint64{}, hosts: map[string]bool{}}
}

// Add takes a message's body. What is no sample of this model is counted and
// changes nothing else.
func (t *Tally) Add(body []byte) error {
	s := &pb.LoadSample{}
	err := proto.Unmarshal(body, s)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSample, err)
	} else {
		err = t.limits.Check(s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && !t.hosts[s.Host] && len(t.hosts) >= t.limits.Hosts {
		err = fmt.Errorf("%w: host %q is one more than %d", ErrSample, s.Host, t.limits.Hosts)
	}
	if err != nil {
		t.refused++
		return err
	}
	t.hosts[s.Host] = true
	t.add(s)
	return nil
}

func (t *Tally) add(s *pb.LoadSample) {
	rows := t.layers[s.Layer]
	if last := int(s.Expert[len(s.Expert)-1]); last >= len(rows) {
		rows = append(rows, make([]uint64, last+1-len(rows))...)
	}
	for i, e := range s.Expert {
		rows[e] += s.Rows[i]
	}
	t.layers[s.Layer] = rows
}

// Layers are the layers that had rows, ascending.
func (t *Tally) Layers() (layers []Layer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l, rows := range t.layers {
		layers = append(layers, Layer{int(l), slices.Clone(rows)})
	}
	slices.SortFunc(layers, func(a, b Layer) int { return a.Layer - b.Layer })
	return layers
}

// Refused is how many messages were no samples of this model.
func (t *Tally) Refused() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}
