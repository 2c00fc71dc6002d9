package loads

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
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

// Layers returns the layers that had rows, ascending.
func (t *Tally) Layers() (layers []Layer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.layers {
		layers = append(layers, Layer{l.Layer, slices.Clone(l.Rows), slices.Clone(l.Heard)})
	}
	slices.SortFunc(layers, func(a, b Layer) int { return a.Layer - b.Layer })
	return layers
}

// Rows returns all that a host is known to have computed since its start.
func (t *Tally) Rows(host string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[host]; h != nil {
		return h.rows
	}
	return 0
}

// Refused returns how many messages were no samples of this model, or more than is kept.
func (t *Tally) Refused() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}

// Every is how often a host that computes sends samples.
const Every = time.Second

// Counter counts the rows that a host's experts compute.
type Counter struct {
	model uint64
	host  string
	rows  [][]atomic.Uint64 // by layer and expert; none for a layer without experts
	told  [][]uint64        // how many of them samples have told of
}

// NewCounter counts for a host of a model, whose layers have experts where moe
// says so.
func NewCounter(model uint64, host string, moe []bool, experts int) *Counter {
	c := &Counter{model: model, host: host, rows: make([][]atomic.Uint64, len(moe)), told: make([][]uint64, len(moe))}
	for l, has := range moe {
		if has {
			c.rows[l], c.told[l] = make([]atomic.Uint64, experts), make([]uint64, experts)
		}
	}
	return c
}

// Add counts a row for each of the experts named, which a layer of the model has.
func (c *Counter) Add(layer uint32, experts []uint32) {
	rows := c.rows[layer]
	for _, e := range experts {
		rows[e].Add(1)
	}
}

// Take returns a sample of each layer that computed anything since the samples
// before, which were taken span ago; with all, of each that ever did, with all its
// experts that did. Only one goroutine may take.
func (c *Counter) Take(span time.Duration, all bool) (samples []*pb.LoadSample) {
	for l := range c.rows {
		if s := c.take(l, all); len(s.Expert) > 0 {
			s.SpanMs = uint32(max(1, span.Milliseconds()))
			samples = append(samples, s)
		}
	}
	return samples
}

func (c *Counter) take(layer int, all bool) *pb.LoadSample {
	s := &pb.LoadSample{Version: schemas.Version, Model: c.model, Host: c.host, Layer: uint32(layer)}
	told := c.told[layer]
	for e := range c.rows[layer] {
		total := c.rows[layer][e].Load()
		if rows := total - told[e]; rows > 0 || all && total > 0 {
			s.Expert, s.Rows, s.Total = append(s.Expert, uint32(e)), append(s.Rows, rows), append(s.Total, total)
			told[e] = total
		}
	}
	return s
}

// StepOf returns a microbatch whose rows are on their way to a gate, without experts.
func StepOf(h *pb.Hidden) *pb.StepLoad {
	k := h.GetKey()
	s := &pb.StepLoad{Owner: k.GetOwner(), Epoch: k.GetEpoch(), Step: k.GetStep(), Rows: k.GetRows(), Probe: h.GetProbe()}
	for _, p := range h.GetPhases() {
		if p.Phase == pb.Phase_PHASE_PREFILL {
			s.PrefillRows += p.Rows
		}
	}
	return s
}

// TimesEvery is how often attention tells what layers have taken.
const TimesEvery = 250 * time.Millisecond

// Took is what a layer took in one step.
type Took struct {
	Rows, Dispatches int
	// Total is the layer forward time, and Messages the part of it that is neither gate nor
	// expert.
	Total, Messages time.Duration
}

// Times adds up what layers take, and has how many requests wait. It is safe for concurrent use.
type Times struct {
	model uint64
	host  string

	mu      sync.Mutex
	layers  map[int]*[claims.Classes]*pb.LayerTime
	waiting int // requests
	at      int // the layer whose samples tell of them
	told    int // of them, by the samples before
}

// NewTimes adds up for an attention replica of a model.
func NewTimes(model uint64, host string) *Times {
	return &Times{model: model, host: host, layers: map[int]*[claims.Classes]*pb.LayerTime{}}
}

// Add takes a layer of a step in. One that cannot be told, because it took longer than
// anybody believes, is left out.
func (t *Times) Add(layer int, took Took) {
	if took.Rows < 1 || took.Rows > claims.MaxStepRows || took.Total <= 0 || took.Total > time.Hour || took.Dispatches < 0 || took.Dispatches > claims.MaxDispatches {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	classes := t.layers[layer]
	if classes == nil {
		classes = &[claims.Classes]*pb.LayerTime{}
		t.layers[layer] = classes
	}
	at := claims.Class(float64(took.Rows))
	if classes[at] == nil {
		classes[at] = &pb.LayerTime{}
	}
	if classes[at].Steps < claims.MaxSteps {
		enter(classes[at], took)
	}
}

// Wait notes how many requests wait now, which samples of this layer tell.
func (t *Times) Wait(layer, requests int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.waiting = layer, min(max(0, requests), claims.MaxWaiting)
}

func enter(c *pb.LayerTime, took Took) {
	n := uint64(took.Dispatches)
	messages := uint64(min(max(0, took.Messages), took.Total))
	c.Steps++
	c.Rows += uint64(took.Rows)
	c.TotalNs += uint64(took.Total)
	c.MessageNs += messages
	c.Dispatches += n
	c.Squares += n * n
	c.Products += n * messages
}

// Take returns a sample of each layer that was added to since the samples before, which
// were taken span ago, and while requests wait, or have just ended waiting, one that says so.
func (t *Times) Take(span time.Duration) (samples []*pb.LoadSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.layers[t.at] == nil && t.waiting+t.told > 0 {
		t.layers[t.at] = &[claims.Classes]*pb.LayerTime{}
	}
	for layer, classes := range t.layers {
		s := &pb.LoadSample{
			Version: schemas.Version, Model: t.model, Host: t.host, Layer: uint32(layer), SpanMs: uint32(max(1, span.Milliseconds())),
			Source: pb.LoadSource_LOAD_SOURCE_ATTENTION,
		}
		for _, c := range classes {
			if c != nil {
				s.Times = append(s.Times, c)
			}
		}
		if layer == t.at {
			s.Waiting = new(uint64(t.waiting))
		}
		samples = append(samples, s)
	}
	t.told = t.waiting
	t.layers = map[int]*[claims.Classes]*pb.LayerTime{}
	return samples
}
