package testtrajectory

import (
	"container/list"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Token is one row of a step.
type Token struct {
	Sequence string // the request's id
	Tenant   string
	Position int
	ID       uint32
	Phase    pb.Phase
	// Rows (layers, D) are what the gates got of it; nil where there are no experts.
	Rows [][]float32
}

// Bounds are what messages may claim beside the model's shape, and what is kept of them.
type Bounds struct {
	// Vocab and Positions are the model's.
	Vocab, Positions int
	// Rows of a step at most.
	Rows int
	// Bytes of the steps that are not whole yet, at most: the oldest is dropped first.
	Bytes int
}

// Reader joins announcements with hidden rows. One goroutine uses it.
type Reader struct {
	shape  *wire.Shape
	bounds Bounds
	layers int // with experts

	open    map[stepID]*step
	byAge   *list.List // of *step
	bytes   int
	dropped int
	// done are the newest steps that were whole, so that a repeat opens none again.
	done      map[stepID]bool
	doneOrder []stepID
}

// stepID names a step.
type stepID struct {
	owner       string
	epoch, step uint64
	microbatch  uint32
}

// step is what has come of one.
type step struct {
	id     stepID
	tokens []Token // nil until it is announced
	layers map[uint32]*layer
	bytes  int
	age    *list.Element // in Reader.byAge
}

// About what is kept beside the numbers themselves, in bytes.
const (
	stepBytes  = 512
	partBytes  = 256
	phaseBytes = 64
	tokenBytes = 96
)

// maxDone bounds the whole steps that are remembered.
const maxDone = 1024

// New returns a reader of a model's messages.
func New(shape *wire.Shape, b Bounds) *Reader {
	r := &Reader{shape: shape, bounds: b, open: map[stepID]*step{}, byAge: list.New(), done: map[stepID]bool{}}
	for _, moe := range shape.MoE {
		if moe {
			r.layers++
		}
	}
	return r
}

// Dropped returns how many steps were dropped before they were whole.
func (r *Reader) Dropped() int { return r.dropped }

// Step takes the body of an announcement in. It returns the step's tokens, in the
// order of its rows, if that makes it whole.
func (r *Reader) Step(body []byte) ([]Token, error) {
	m := &pb.Step{}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: decoding an announcement: %w", wire.ErrMalformed, err)
	}
	tokens, err := r.tokensOf(m)
	if err != nil {
		return nil, fmt.Errorf("announcement of step %d: %w", m.Step, err)
	}
	s := r.step(stepID{m.Owner, m.Epoch, m.Step, m.Microbatch})
	if s == nil {
		return nil, nil
	}
	if err := s.announce(tokens); err != nil {
		return nil, fmt.Errorf("announcement of step %d: %w", m.Step, err)
	}
	return r.update(s)
}

// Hidden takes the body of hidden rows in. It returns the tokens of their step, in
// the order of its rows, if that makes it whole.
func (r *Reader) Hidden(body []byte) ([]Token, error) {
	h := &pb.Hidden{}
	if err := proto.Unmarshal(body, h); err != nil {
		return nil, fmt.Errorf("%w: decoding hidden rows: %w", wire.ErrMalformed, err)
	}
	p, err := r.partOf(h)
	if err != nil {
		return nil, fmt.Errorf("rows of step %d, layer %d: %w", h.GetKey().GetStep(), h.GetKey().GetLayer(), err)
	}
	s := r.step(stepID{h.Key.Owner, h.Key.Epoch, h.Key.Step, h.Key.Microbatch})
	if s == nil {
		return nil, nil
	}
	if err := s.add(h.Key.Layer, p); err != nil {
		return nil, fmt.Errorf("rows of step %d, layer %d: %w", h.Key.Step, h.Key.Layer, err)
	}
	return r.update(s)
}

// step finds a step or begins one; nil: it was whole before.
func (r *Reader) step(id stepID) *step {
	if r.done[id] {
		return nil
	}
	s := r.open[id]
	if s == nil {
		s = &step{id: id, layers: map[uint32]*layer{}}
		r.open[id], s.age = s, r.byAge.PushBack(s)
	}
	return s
}

// update ends a step that is whole now, and keeps within the bound of bytes.
func (r *Reader) update(s *step) ([]Token, error) {
	r.bytes -= s.bytes
	s.bytes = s.size()
	r.bytes += s.bytes
	if s.whole(r.layers) {
		r.shut(s)
		r.remember(s.id)
		return s.decode(len(r.shape.MoE), r.shape.Hidden)
	}
	for r.bytes > r.bounds.Bytes {
		oldest, _ := r.byAge.Front().Value.(*step)
		r.shut(oldest)
		r.dropped++
	}
	return nil, nil
}

func (r *Reader) shut(s *step) {
	delete(r.open, s.id)
	r.byAge.Remove(s.age)
	r.bytes -= s.bytes
}

func (r *Reader) remember(id stepID) {
	if len(r.doneOrder) == maxDone {
		delete(r.done, r.doneOrder[0])
		r.doneOrder = slices.Delete(r.doneOrder, 0, 1)
	}
	r.done[id] = true
	r.doneOrder = append(r.doneOrder, id)
}

// announce says whose the rows are. A repeat changes nothing.
func (s *step) announce(tokens []Token) error {
	if s.tokens != nil {
		if !slices.EqualFunc(s.tokens, tokens, sameToken) {
			return fmt.Errorf("%w: it was announced with other rows", wire.ErrMalformed)
		}
		return nil
	}
	for _, l := range s.layers {
		for _, p := range l.parts {
			if err := p.fits(tokens); err != nil {
				return err
			}
		}
	}
	s.tokens = tokens
	return nil
}

func sameToken(a, b Token) bool {
	return a.Sequence == b.Sequence && a.Tenant == b.Tenant && a.Position == b.Position && a.ID == b.ID && a.Phase == b.Phase
}

// add takes a part of a layer's rows in. A repeat changes nothing.
func (s *step) add(number uint32, p part) error {
	if s.tokens != nil {
		if err := p.fits(s.tokens); err != nil {
			return err
		}
	}
	l := s.layers[number]
	if l == nil {
		l = &layer{}
		s.layers[number] = l
	}
	return l.add(p)
}

func (s *step) size() int {
	n := stepBytes
	for _, t := range s.tokens {
		n += tokenBytes + len(t.Sequence) + len(t.Tenant)
	}
	for _, l := range s.layers {
		n += l.bytes
	}
	return n
}

// whole reports whether the step is announced and all rows of so many layers are here.
func (s *step) whole(layers int) bool {
	if s.tokens == nil || len(s.layers) < layers {
		return false
	}
	for _, l := range s.layers {
		if l.rows < len(s.tokens) {
			return false
		}
	}
	return true
}

// decode gives the tokens their rows of width d.
func (s *step) decode(layers, d int) ([]Token, error) {
	for i := range s.tokens {
		s.tokens[i].Rows = make([][]float32, layers)
	}
	for number, l := range s.layers {
		for _, p := range l.parts {
			x := make([]float32, p.rows*d)
			if err := tensor.Decode(x, p.tensor, d); err != nil {
				return nil, err
			}
			for i := range p.rows {
				s.tokens[p.first+i].Rows[number] = x[i*d : (i+1)*d]
			}
		}
	}
	return s.tokens, nil
}
