package model

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Store is where the objects of a model are that is in no folder.
type Store interface {
	// Read returns an object's bytes, when they are what the manifest says: in into, if that is large enough.
	Read(ctx context.Context, o digest.Object, into []byte) ([]byte, error)
	// Close is called when the model is closed.
	Close() error
}

// FromStore opens a model whose pieces are fetched when they are needed. ctx is
// for opening it; File reads within the same, and tells log what it waits for.
func FromStore(ctx context.Context, name string, m *digest.Manifest, from Store, log *slog.Logger) (*Model, error) {
	model, err := fromStore(ctx, name, m, from, log)
	if err != nil {
		return nil, fmt.Errorf("opening model %s of the object store: %w", name, err)
	}
	return model, nil
}

func fromStore(ctx context.Context, name string, man *digest.Manifest, from Store, log *slog.Logger) (*Model, error) {
	o := &objects{ctx: ctx, log: log, from: from, manifest: man, tensors: map[string]Tensor{}, named: map[string]digest.Object{}}
	for _, t := range man.Tensors {
		o.tensors[t.Name] = Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	for _, object := range man.Objects {
		o.named[object.Name] = object
	}
	config, err := o.read(ctx, digest.FilePrefix+"config.json", nil)
	if err != nil {
		return nil, err
	}
	if digest.Identity(config, man.Tensors) != man.Model {
		return nil, fmt.Errorf("its config.json and tensors are not those of the hash %.12s in its manifest; push the model again", man.Model)
	}
	m, err := o.model(ctx, name, config)
	if err != nil {
		return nil, err
	}
	m.Hash, m.digests = man.Model, man.Tensors
	return m, nil
}

// objects are the pieces of a model in a store.
type objects struct {
	ctx      context.Context // of File
	log      *slog.Logger
	from     Store
	manifest *digest.Manifest
	tensors  map[string]Tensor // without Data
	named    map[string]digest.Object
	spare    sync.Pool // of *[]byte: memory of pieces that are loaded
}

func (o *objects) model(ctx context.Context, name string, config []byte) (*Model, error) {
	var generation []byte
	if _, ok := o.named[digest.FilePrefix+"generation_config.json"]; ok {
		var err error
		if generation, err = o.read(ctx, digest.FilePrefix+"generation_config.json", nil); err != nil {
			return nil, err
		}
	}
	return newModel(name, config, generation, o)
}

func (o *objects) read(ctx context.Context, name string, into []byte) ([]byte, error) {
	object, ok := o.named[name]
	if !ok {
		return nil, fmt.Errorf("object %q: %w", name, digest.ErrNoObject)
	}
	return o.from.Read(ctx, object, into)
}

// tensor knows no Data: see Model.With.
func (o *objects) tensor(name string) (Tensor, bool) { return o.stat(name) }

func (o *objects) stat(name string) (Tensor, bool) {
	t, ok := o.tensors[name]
	return t, ok
}

const (
	// fileRetry is the pause before a file that could not be read is read again.
	fileRetry = 500 * time.Millisecond
	// fileTold is after how long the same error is told again.
	fileTold = 30 * time.Second
)

// file waits for one that there is: to go on without it would be to serve
// another model. It says now and then what it waits for.
func (o *objects) file(name string) ([]byte, bool) {
	object, ok := o.named[digest.FilePrefix+name]
	for told := map[string]time.Time{}; ok; {
		data, err := o.from.Read(o.ctx, object, nil)
		if err == nil {
			return data, true
		}
		if text := err.Error(); time.Since(told[text]) > fileTold && o.ctx.Err() == nil {
			told[text] = time.Now()
			o.log.Warn("a file of the model cannot be read from the object store; trying again", "object", object.Name, "error", text)
		}
		ok = pause.For(o.ctx, fileRetry) == nil
	}
	return nil, false
}

func (o *objects) close() error { return o.from.Close() }

// With returns the model for loading weights: what has to be fetched for that
// ends with ctx, and what was fetched last stays in memory until the next piece
// is needed. A model in a folder is mapped, and is returned as it is.
func (m *Model) With(ctx context.Context) *Model {
	with, _ := m.Fetching(ctx)
	return with
}

// Fetching is With for who copies what it loads: done ends the use of all tensors, so that later loads fetch into their
// memory.
func (m *Model) Fetching(ctx context.Context) (with *Model, done func()) {
	o, ok := m.source.(*objects)
	if !ok {
		return m, func() {}
	}
	with, f := new(Model), &fetcher{objects: o, ctx: ctx}
	*with = *m
	with.source = f
	return with, f.done
}

// Fetch has the system read tensors of a folder that are about to be loaded, and does not wait. It does nothing for
// a model that is in no folder; what is wrong with a ref its loading tells.
func (m *Model) Fetch(refs ...Ref) {
	if c, ok := m.source.(*checkpoint); !ok || c.dir == "" {
		return
	}
	for _, ref := range refs {
		if r, err := m.find(ref, m.source.tensor); err == nil {
			safetensors.Fetch(r.own(r.stored.Data))
			safetensors.Fetch(r.own(r.scales.Data))
		}
	}
}

// Near is cpu.Packer's for tensors of a folder that are about to be loaded; nil where nothing is mapped, or where their
// rows are not as they are stored. When rows are on no page that the system has, it is told to read all of these tensors.
func (m *Model) Near(refs ...Ref) func(buffer, rows []byte) []byte {
	if c, ok := m.source.(*checkpoint); !ok || c.dir == "" {
		return nil
	}
	for _, ref := range refs {
		if at := m.stored(ref); at.Transposed || at.Paired || at.Part.Interleaved {
			return nil
		}
	}
	fetch := sync.OnceFunc(func() { m.Fetch(refs...) })
	return func(buffer, rows []byte) []byte { return safetensors.Near(buffer, rows, fetch) }
}

// fetcher is objects with the piece that was fetched last.
type fetcher struct {
	*objects
	ctx context.Context

	mu    sync.Mutex
	last  Piece
	piece *safetensors.File
	data  []byte // of the piece
}

// done leaves the memory of the last piece to others.
func (f *fetcher) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data := f.data; data != nil {
		f.piece, f.data = nil, nil
		f.spare.Put(&data)
	}
}

func (f *fetcher) fetch(p Piece) (*safetensors.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.piece != nil && f.last == p {
		return f.piece, nil
	}
	f.piece, f.data = nil, nil // its memory, before that of the next one
	var into []byte
	if spare, ok := f.spare.Get().(*[]byte); ok {
		into = *spare
	}
	data, err := f.read(f.ctx, p.String(), into)
	if err != nil {
		return nil, err
	}
	if f.piece, err = safetensors.Parse(data); err != nil {
		return nil, fmt.Errorf("object %v: %w", p, err)
	}
	f.last, f.data = p, data
	return f.piece, nil
}

// load is find with the Data of what is stored.
func (m *Model) load(ref Ref) (*resolved, error) {
	if o, ok := m.source.(*objects); ok { // nobody said how long it may take
		return m.fetched(&fetcher{objects: o, ctx: o.ctx}, ref)
	}
	if f, ok := m.source.(*fetcher); ok {
		return m.fetched(f, ref)
	}
	return m.find(ref, m.source.tensor)
}

// fetched finds ref in its piece. Of stacked tensors that has one expert's part,
// which is as if there were no other.
func (m *Model) fetched(f *fetcher, ref Ref) (*resolved, error) {
	want := m.Spec.Shape(ref)
	if want == nil {
		return nil, fmt.Errorf("model %s has no tensor %v", m.Name, ref)
	}
	at, p := m.stored(ref), m.pieceOf(ref)
	piece, err := f.fetch(p)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	ref.Expert = 0
	r, err := resolve(at, ref, want, 1, piece.Tensor)
	if err != nil {
		return nil, fmt.Errorf("model %s: object %v: %w", m.Name, p, err)
	}
	return r, nil
}
