package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// weights are a backbone's in this process's memory; the CPU computes with them.
type weights struct {
	spec      *model.Spec
	p         *pool.Pool
	embed     embeddings
	layers    []*layer
	head      head
	scratches scratchPool
}

// LoadBackbone reads and packs the backbone's weights for the CPU. maxPositions bounds
// the length of a sequence.
func LoadBackbone(m *model.Model, p *pool.Pool, maxPositions int) (*Backbone, error) {
	w, err := loadWeights(m, p, maxPositions)
	if err != nil {
		return nil, err
	}
	return NewBackbone(&m.Spec, w), nil
}

func loadWeights(m *model.Model, p *pool.Pool, maxPositions int) (_ *weights, err error) {
	t := &weights{spec: &m.Spec, p: p, layers: make([]*layer, m.Spec.Layers)}
	tables := &ropes{positions: maxPositions}
	in := kvcache.PlacesOf(&m.Spec)
	for l := range t.layers {
		if t.layers[l], err = loadLayer(m, l, tables, in); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	if t.embed, err = loadEmbeddings(m); err != nil {
		return nil, err
	}
	t.head, err = loadHead(m)
	return t, err
}

func (t *weights) Bytes() int64 {
	n := t.head.matrix.Bytes()
	for _, tl := range t.layers {
		n += tl.bytes()
	}
	return n
}

func (t *weights) NewPool(shape kvcache.Shape, budget int64) (*kvcache.Pool, error) {
	return kvcache.NewPool(shape, budget)
}

func (t *weights) Lane(p *Progress) (Lane, error) { return &lane{weights: t, progress: p}, nil }

// lane is the state of one step on the CPU, in buffers that it keeps.
type lane struct {
	*weights
	progress *Progress

	rows                 []Row
	wanted               []int // rows whose logits somebody wants
	narrows              bool  // behind the layer's keys and values go on with wanted alone
	left                 []Row
	x, norm              []float32
	block, shared, inner []float32
	mixBuffers
	logits []float32
	atOnce int // logits; 0 is logitsAtOnce
	// pending is the layer whose Combine is still to be computed, or nil.
	pending *layer
	// shares of the step's rows, of which count are in use; see shareOut. A share works alone, on one thread.
	shares []*lane
	count  int
	costs  []int // of rows
	nanos  int   // of attention of all rows, on one thread
	alone  bool
	always bool // share blocks out however short they are: for tests
	// strongest are the rows' keys that counted most in the newest layer; keys reports whether
	// anybody asks.
	strongest []int32
	keys      bool
}

var _ Lane = (*lane)(nil)

func (s *lane) workers() workers {
	if s.alone {
		return workers{nil, s.progress}
	}
	return workers{s.p, s.progress}
}

// Begin looks the rows' embeddings up, which may be in a file.
func (s *lane) Begin(rows []Row) error {
	n := len(rows) * s.spec.Hidden
	s.rows, s.pending, s.narrows = rows, nil, false
	s.x, s.norm = reuse.Slice(s.x, n), reuse.Slice(s.norm, n)
	s.block, s.shared = reuse.Slice(s.block, n), reuse.Slice(s.shared, n)
	if s.keys {
		s.strongest = reuse.Slice(s.strongest, len(rows))
	}
	s.shareOut()
	return safetensors.Guarded(func() error {
		s.embed.fill(s.workers(), s.x, rows)
		return nil
	})
}

func (s *lane) Attend(l int) ([]float32, error) {
	tl, before := s.layers[l], s.pending
	s.pending = nil
	s.each(tl.attentionBytes(), s.nanos, func(s *lane) {
		s.combine(before)
		s.attend(tl)
	})
	return s.ffnInput(tl), nil
}

func (s *lane) attend(tl *layer) {
	tl.mixer.mix(s, tl.place, s.block, s.input(tl, tl.mixerNorm))
	if len(s.rows) == 0 {
		return // all that the step needed is stored
	}
	s.residual(tl, tl.mixerNorm)
	if tl.cross != nil {
		tl.cross.mix(s, s.block, s.input(tl, tl.crossNorm))
		s.residual(tl, tl.crossNorm)
	}
	s.input(tl, tl.ffnNorm)
}

// input returns what a block of the layer takes: x, or its norm.
func (s *lane) input(tl *layer, n norm) []float32 {
	if tl.order == model.NormAfter {
		return s.x
	}
	n.apply(s.workers(), s.norm, s.x, len(s.rows))
	return s.norm
}

func (s *lane) residual(tl *layer, n norm) {
	s.add(s.x, s.block)
	if tl.order == model.NormAfter {
		n.apply(s.workers(), s.x, s.x, len(s.rows))
	}
}

func (s *lane) add(dst, a []float32) {
	d := s.spec.Hidden
	eachRow(s.workers(), len(s.rows), d/addedPerNano, func(from, to int) { cpu.Add(dst[from*d:to*d], a[from*d:to*d]) })
}

func (s *lane) ffnInput(tl *layer) []float32 {
	if tl.order == model.NormAfter {
		return s.x
	}
	return s.norm
}

func (s *lane) Dense(l int) error {
	tl := s.layers[l]
	s.each(tl.dense.bytes(), tl.dense.nanos(len(s.rows)), func(s *lane) {
		s.feed(tl.dense, s.block, s.ffnInput(tl))
		s.residual(tl, tl.ffnNorm)
	})
	return nil
}

func (s *lane) Shared(l int) error {
	tl := s.layers[l]
	s.each(tl.shared.bytes(), tl.shared.nanos(len(s.rows)), func(s *lane) { s.sharedExpert(tl.shared, s.ffnInput(tl)) })
	return nil
}

func (s *lane) Block() []float32 { return s.block }

// Combine leaves both kinds of experts' output to what comes next, which adds it.
func (s *lane) Combine(l int) error {
	s.pending = s.layers[l]
	return nil
}

// combine adds the output of a layer's experts; nil: there is none to add.
func (s *lane) combine(tl *layer) {
	if tl == nil {
		return
	}
	if tl.shared != nil {
		s.add(s.block, s.shared)
	}
	s.residual(tl, tl.ffnNorm)
}

func (s *lane) settle() {
	s.combine(s.pending)
	s.pending = nil
}

// End leaves an encoder's output to the decoder.
func (s *lane) End() ([]float32, error) {
	s.settle()
	if !Encodes(s.rows) {
		return nil, nil
	}
	for _, tl := range s.layers[s.spec.EncoderLayers:] {
		if tl.cross != nil {
			tl.cross.remember(s, s.x)
		}
	}
	return s.x, nil
}

func (s *lane) feed(f *ffn, dst, x []float32) {
	n := len(s.rows)
	s.inner = reuse.Slice(s.inner, f.floatsFor(n))
	f.run(s.workers(), dst, x, n, s.inner)
}
