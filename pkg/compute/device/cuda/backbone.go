package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// BackboneSettings of a GPU that computes attention.
type BackboneSettings struct {
	// Memory is what it takes of the GPU: weights, buffers and pages; 0 is nine tenths
	// of what is free.
	Memory int64
	// Parts is as of Settings.
	Parts int
	// Positions bounds a sequence, Rows a step, Lanes how many steps compute at a time.
	Positions, Rows, Lanes int
	// Patience is how long the GPU may take for a layer; 0 is DefaultPatience.
	Patience time.Duration
	// NoGraphs lets all launches go one by one, for measurements.
	NoGraphs bool
	// Ungraphed is told once why launches go one by one from now on; nil: nobody is.
	Ungraphed func(why error)
}

// Backbone computes a model's backbone on one GPU.
//
//	arena: │ weights │ numbers of random ones │ lane │ … │ page │ page │ page │ …
type Backbone struct {
	*health
	spec    *model.Spec
	driver  cuda.Driver
	arena   *cuda.Arena
	sizes   sizes
	layers  []backboneLayer
	head    headWeights
	kernels *backboneKernels
	turns   []*forward.Rotary // as layers number them
	embed   *forward.Embeddings
	pool    *kvcache.Pool
	bytes   int64    // of the weights
	scratch cuda.Ptr // a page for rows that a shape has and a step has not; 0 without graphs

	graphless atomic.Bool
	tell      func(error) // why it is; or nil

	mu    sync.Mutex
	lanes []*stepLane
	given int // lanes that are in use
}

var (
	_ forward.Computer = (*Backbone)(nil)
	_ device.Failer    = (*Backbone)(nil)
)

// OpenBackbone takes the memory of a GPU and brings the weights there. The driver is
// the backbone's from then on, also when opening fails; the model is the caller's.
func OpenBackbone(ctx context.Context, m *model.Model, p *pool.Pool, driver cuda.Driver, images cuda.Images, s BackboneSettings) (_ *Backbone, err error) {
	s.Patience = cmp.Or(s.Patience, DefaultPatience)
	b := &Backbone{spec: &m.Spec, driver: driver, health: newHealth(s.Patience), tell: s.Ungraphed}
	b.graphless.Store(s.NoGraphs)
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if err := errors.Join(CheckBackbone(m), checkRows(s.Rows)); err != nil {
		return nil, err
	}
	b.sizes = sizesOf(&m.Spec, s)
	if b.kernels, err = openBackboneKernels(driver, images, m, s.Parts); err != nil {
		return nil, err
	}
	if s.Memory, err = memoryOf(driver, s.Memory); err != nil {
		return nil, err
	}
	if b.arena, err = cuda.NewArena(driver, s.Memory, "this host"); err != nil {
		return nil, err
	}
	if err := b.load(ctx, m); err != nil {
		return nil, err
	}
	if err := b.loadTurns(s.Positions); err != nil {
		return nil, err
	}
	if b.embed, err = forward.LoadEmbeddings(m, p); err != nil {
		return nil, err
	}
	return b, b.openLanes(s.Lanes)
}

// load places the weights, and copies them or, where they are random, makes them there.
func (b *Backbone) load(ctx context.Context, m *model.Model) error {
	sized := placing{m: m}
	sized.backbone()
	if sized.err != nil {
		return sized.err
	}
	base, err := b.arena.Take(sized.end(), "attention of model "+m.Name)
	if err != nil {
		return err
	}
	r, err := newRandom(ctx, m, sized.matrices(), b.kernels.kernels, b.arena, b.driver, b.health)
	if err != nil {
		return err
	}
	p := placing{m: m, base: base, table: base + cuda.Ptr(sized.bytes)}
	b.layers, b.head = p.backbone()
	b.bytes = p.end()
	if err := p.copy(ctx, b.driver, b.health, r); err != nil {
		return fmt.Errorf("copying attention's weights to the GPU: %w", err)
	}
	return nil
}

func (b *Backbone) loadTurns(positions int) error {
	for _, of := range turnsOf(b.spec) {
		r, err := forward.NewRotary(of, positions)
		if err != nil {
			return err
		}
		b.turns = append(b.turns, r)
	}
	return nil
}

func (b *Backbone) openLanes(n int) error {
	for range n {
		l, err := newStepLane(b)
		if err != nil {
			return fmt.Errorf("making buffers on the GPU: %w", err)
		}
		b.lanes = append(b.lanes, l)
	}
	return nil
}

// Lane hands out one of those that were made when the backbone opened.
func (b *Backbone) Lane(p *forward.Progress) (forward.Lane, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given == len(b.lanes) {
		return nil, fmt.Errorf("all %d lanes of the GPU are taken", b.given)
	}
	l := b.lanes[b.given]
	l.progress = p
	b.given++
	return l, nil
}

// Bytes returns the memory of the weights.
func (b *Backbone) Bytes() int64 { return b.bytes }

// NewPool cuts pages of what is left of the GPU's memory, of budget bytes at most; 0 is
// all. It is called once.
func (b *Backbone) NewPool(shape kvcache.Shape, budget int64) (_ *kvcache.Pool, err error) {
	b.blocks(shape)
	page, graphs := cuda.Aligned(shape.DevicePage()), !b.graphless.Load()
	need := page * int64(len(b.sizes.sights))
	if graphs {
		need += page
	}
	if b.arena.Rest() < need {
		return nil, &cuda.RoomError{What: "a page of keys and values", Need: need, Rest: b.arena.Rest(), Size: b.arena.Size()}
	}
	slots, err := b.arena.Slots(page, "a page of keys and values")
	if err != nil {
		return nil, err
	}
	if graphs {
		b.scratch, _ = slots.Take()
	}
	var at []uint64
	for budget == 0 || int64(len(at)+1)*page <= budget {
		p, ok := slots.Take()
		if !ok {
			break
		}
		at = append(at, uint64(p))
	}
	b.pool, err = kvcache.NewDevicePool(shape, at)
	return b.pool, err
}

// blocks says what layers take of pages here.
func (b *Backbone) blocks(shape kvcache.Shape) {
	for i := range b.layers {
		t := &b.layers[i]
		block := t.block(b.sizes.parts)
		shape.Layers[t.place].Block = max(shape.Layers[t.place].Block, block)
		if t.cross != nil {
			shape.Layers[t.cross.place].Block = block
		}
	}
}

// Close ends the backbone and its driver, when no step is under way. A lost GPU is asked
// for nothing: all of it goes with the process.
func (b *Backbone) Close() {
	lost := b.Err() != nil
	for _, l := range b.lanes {
		l.close(lost)
	}
	b.lanes = nil
	closeDriver(b.driver, b.arena, lost)
}

// failed is an error of the GPU's, as steps see it.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &forward.DeviceError{Lost: errors.Is(err, cuda.ErrLost), Err: fmt.Errorf("computing on the GPU: %w", err)}
}
