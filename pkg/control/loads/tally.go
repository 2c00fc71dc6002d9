package loads

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Layer has the rows of a layer's experts over all hosts, by expert id, up to the
// last one that had any.
type Layer struct {
	Layer int
	// Rows are those since the hosts' starts.
	Rows []uint64
	// Heard are those that were computed while the tally listened.
	Heard []uint64
}

// Tally keeps the newest total of each expert of a layer on each host. It is safe
// for concurrent use.
type Tally struct {
	limits claims.Limits

	mu      sync.Mutex
	layers  map[uint32]*Layer // the sums of totals
	totals  map[entry]uint64
	hosts   map[string]*host
	refused uint64
}

// entry names a total: of an expert of a layer on a host.
type entry struct{ host, layer, expert uint32 }

type host struct {
	number uint32
	rows   uint64 // the sum of its totals
}

// NewTally starts from nothing.
func NewTally(l claims.Limits) *Tally {
	return &Tally{limits: l, layers: map[uint32]*Layer{}, totals: map[entry]uint64{}, hosts: map[string]*host{}}
}

// Add takes a message's body. What is no sample of this model, or more than a
// tally keeps, is counted and changes nothing else.
func (t *Tally) Add(body []byte) error {
	s, err := decode(t.limits, body)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		err = t.checkRoom(s)
	}
	if err != nil {
		t.refused++
		return err
	}
	t.add(s)
	return nil
}

// decode refuses what is no sample of a host's experts of the model.
func decode(l claims.Limits, body []byte) (*pb.LoadSample, error) {
	s := &pb.LoadSample{}
	if err := proto.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%w: %w", claims.ErrSample, err)
	}
	if s.Source != pb.LoadSource_LOAD_SOURCE_UNSPECIFIED || len(s.Expert) == 0 {
		return nil, fmt.Errorf("%w: it is not of a host's experts", claims.ErrSample)
	}
	return s, l.Check(s)
}

// checkRoom refuses a sample that is more than a tally keeps.
func (t *Tally) checkRoom(s *pb.LoadSample) error {
	h := t.hosts[s.Host]
	if h == nil && len(t.hosts) >= t.limits.Hosts {
		return fmt.Errorf("%w: host %q is one more than %d", claims.ErrSample, s.Host, t.limits.Hosts)
	}
	more := 0
	for _, e := range s.Expert {
		if h == nil {
			more = len(s.Expert)
			break
		}
		if _, ok := t.totals[entry{h.number, s.Layer, e}]; !ok {
			more++
		}
	}
	if len(t.totals)+more > t.limits.Entries {
		return fmt.Errorf("%w: %d experts of layer %d on host %q are more than the %d totals that are kept",
			claims.ErrSample, more, s.Layer, s.Host, t.limits.Entries)
	}
	return nil
}

// add puts a host's newest totals in the place of those before, which may have
// been larger: somebody else had told them. Sums of lies may wrap around.
func (t *Tally) add(s *pb.LoadSample) {
	h := t.hosts[s.Host]
	if h == nil {
		h = &host{number: uint32(len(t.hosts))}
		t.hosts[s.Host] = h
	}
	l := t.layer(s.Layer, int(s.Expert[len(s.Expert)-1])+1)
	for i, e := range s.Expert {
		at := entry{h.number, s.Layer, e}
		before, known := t.totals[at]
		t.totals[at] = s.Total[i]
		l.Rows[e] += s.Total[i] - before
		h.rows += s.Total[i] - before
		switch {
		case !known: // what it computed before is nothing that was heard
			l.Heard[e] += s.Rows[i]
		case s.Total[i] > before:
			l.Heard[e] += s.Total[i] - before
		}
	}
}

// layer has room for so many experts.
func (t *Tally) layer(number uint32, experts int) *Layer {
	l := t.layers[number]
	if l == nil {
		l = &Layer{Layer: int(number)}
		t.layers[number] = l
	}
	if more := experts - len(l.Rows); more > 0 {
		l.Rows = append(l.Rows, make([]uint64, more)...)
		l.Heard = append(l.Heard, make([]uint64, more)...)
	}
	return l
}

// Layers are the layers that had rows, ascending.
func (t *Tally) Layers() (layers []Layer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.layers {
		layers = append(layers, Layer{l.Layer, slices.Clone(l.Rows), slices.Clone(l.Heard)})
	}
	slices.SortFunc(layers, func(a, b Layer) int { return a.Layer - b.Layer })
	return layers
}

// Rows are all that a host is known to have computed since its start.
func (t *Tally) Rows(host string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[host]; h != nil {
		return h.rows
	}
	return 0
}

// Refused is how many messages were no samples of this model, or more than is kept.
func (t *Tally) Refused() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}
