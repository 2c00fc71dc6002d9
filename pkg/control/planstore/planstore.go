// Package planstore keeps the plan in a key-value bucket: one key a layer, each
// of which stands alone. Writers replace a key by its revision and under the
// epoch of their lease; readers follow the bucket.
package planstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var (
	// ErrConflict says that another planner wrote meanwhile.
	ErrConflict = errors.New("another planner wrote the plan")
	// ErrFenced says that a planner of a later epoch wrote: this one has lost
	// its lease.
	ErrFenced = errors.New("a planner with a later lease wrote the plan")
	// ErrIllegal says that what lies in the place of a plan is none.
	ErrIllegal = errors.New("no legal plan")
)

// Settings are what code sets.
type Settings struct {
	plan.Rules
	// Illegal, if set, is called for each value that is not taken for a plan.
	Illegal func(error)
}

// Store is a model's plan in its bucket.
type Store struct {
	kv jetstream.KeyValue
	s  Settings
}

// New returns the plan in a bucket, which is from bus.EnsureBucket.
func New(kv jetstream.KeyValue, s Settings) *Store { return &Store{kv, s} }

// Value is what lies at a layer's key.
type Value struct {
	Layer int
	// Plan is nil if the key is deleted or its value is no legal plan.
	Plan *plan.Layer
	// Raw is the value as far as it can be read; nil if it cannot.
	Raw *pb.LayerPlan
	// Err says why there is no plan; nil for one and for a deleted key.
	Err error
	// Revision is the bucket's at which the value was written.
	Revision uint64
}

// State is what the bucket holds, by layer. It is not to be changed.
type State map[int]Value

// Layers returns the legal plans.
func (s State) Layers() map[int]*plan.Layer {
	out := make(map[int]*plan.Layer, len(s))
	for l, v := range s {
		if v.Plan != nil {
			out[l] = v.Plan
		}
	}
	return out
}

// Kinds returns those that values were written for.
func (s State) Kinds() map[schemas.Kind]bool {
	out := map[schemas.Kind]bool{}
	for _, v := range s {
		if v.Raw != nil {
			out[schemas.KindOf(v.Raw)] = true
		}
	}
	return out
}

// readsAtOnce bounds the keys that are read at a time.
const readsAtOnce = 8

// Read returns what the bucket holds. It is for one look; Follow is for more.
func (s *Store) Read(ctx context.Context) (State, error) {
	layers := s.s.MoELayers
	entries, errs := make([]jetstream.KeyValueEntry, len(layers)), make([]error, len(layers))
	parallel.Each(readsAtOnce, 0, len(layers), func(i int) { entries[i], errs[i] = s.kv.Get(ctx, key(layers[i])) })
	state := State{}
	for i, l := range layers {
		switch {
		case errors.Is(errs[i], jetstream.ErrKeyNotFound):
		case errs[i] != nil:
			return nil, fmt.Errorf("reading the plan of layer %d: %w", l, errs[i])
		default:
			state[l] = s.value(l, entries[i].Value(), entries[i].Revision())
		}
	}
	return state, nil
}

// Keys returns those that a bucket of plans has: its layers' and the settings'.
func Keys(moeLayers []int) []string {
	keys := []string{SettingsKey}
	for _, l := range moeLayers {
		keys = append(keys, key(l))
	}
	return keys
}

func key(layer int) string { return strconv.Itoa(layer) }

// value checks what lies at a layer's key. A layer's version grows by one while
// its revision, which the server counts, grows by one or more: a larger version
// is a forgery, and one that no other could follow.
func (s *Store) value(layer int, body []byte, revision uint64) Value {
	v := Value{Layer: layer, Revision: revision}
	lp := &pb.LayerPlan{}
	if err := proto.Unmarshal(body, lp); err != nil {
		v.Err = fmt.Errorf("%w at key %d: %w", ErrIllegal, layer, err)
		return v
	}
	v.Raw = lp
	switch l, err := s.s.Check(lp); {
	case err != nil:
		v.Err = fmt.Errorf("%w at key %d: %w", ErrIllegal, layer, err)
	case int(lp.Layer) != layer:
		v.Err = fmt.Errorf("%w at key %d: it is of layer %d", ErrIllegal, layer, lp.Layer)
	case lp.Version == 0 || lp.Version > revision:
		v.Err = fmt.Errorf("%w at key %d: revision %d has version %d", ErrIllegal, layer, revision, lp.Version)
	default:
		v.Plan = l
	}
	return v
}

// Writer is who writes, under a lease.
type Writer struct {
	Epoch uint64
	// Holds asks whether the lease is this writer's still. It is called where a
	// larger epoch than the writer's is found: a holder's is the largest that
	// there is, so what has a larger one is a forgery then.
	Holds func(context.Context) (bool, error)
}

// Write makes wanted layers the plan, those that old does not have already under the same settings, and
// returns what the bucket holds then, and which layers have changed. wanted has
// layers, functions and reasons; it and old stay as they are. Layers are stored in
// their order, without waiting for one another: each stands alone, and an error says
// that one of them was not.
func (s *Store) Write(ctx context.Context, old State, wanted []*pb.LayerPlan, by Writer) (now State, changed []int, err error) {
	if now = maps.Clone(old); now == nil {
		now = State{}
	}
	var flying []replacement
	for _, want := range wanted {
		l := int(want.GetLayer())
		if there := old[l].Plan; there != nil && plan.Stands(there.LayerPlan, want) {
			continue
		}
		var r replacement
		if r, err = s.replace(ctx, old[l], want, by); err != nil {
			err = fmt.Errorf("writing the plan of layer %d: %w", l, err)
			break
		}
		flying = append(flying, r)
	}
	for _, r := range flying {
		if failed := r.wait(); failed != nil {
			err = cmp.Or(err, fmt.Errorf("writing the plan of layer %d: %w", r.value.Layer, failed))
			continue
		}
		now[r.value.Layer], changed = r.value, append(changed, r.value.Layer)
	}
	return now, changed, err
}

// replacement is a layer's plan on its way to the bucket.
type replacement struct {
	value  Value // without its revision
	stored chan stored
}

type stored struct {
	revision uint64
	err      error
}

// wait returns when it is stored, or why it is not.
func (r *replacement) wait() error {
	s := <-r.stored
	r.value.Revision = s.revision
	if bus.IsWrongSequence(s.err) {
		return ErrConflict
	}
	return s.err
}

// replace sends a layer's next plan to the bucket.
func (s *Store) replace(ctx context.Context, old Value, want *pb.LayerPlan, by Writer) (replacement, error) {
	r := replacement{stored: make(chan stored, 1)}
	if err := by.check(ctx, old.Raw.GetWriterEpoch()); err != nil {
		return r, err
	}
	version, err := s.after(ctx, old)
	if err != nil {
		return r, err
	}
	kind, lp := s.s.Kind, proto.CloneOf(want)
	lp.Version, lp.WriterEpoch = version, by.Epoch
	lp.ModelHash, lp.NumericClass, lp.Wire, lp.Hops, lp.SchemaVersion = kind.ModelHash, kind.NumericClass, kind.Wire, string(kind.Hops), kind.Version
	checked, err := s.s.Check(lp)
	if err != nil {
		return r, err
	}
	body, err := proto.Marshal(lp)
	if err != nil {
		return r, fmt.Errorf("encoding: %w", err)
	}
	r.value = Value{Layer: int(lp.Layer), Plan: checked, Raw: lp}
	return r, s.put(ctx, key(int(lp.Layer)), body, old.Revision, func(revision uint64, err error) { r.stored <- stored{revision, err} })
}

// check fences off a writer that has lost its lease.
func (w Writer) check(ctx context.Context, epoch uint64) error {
	if epoch <= w.Epoch {
		return nil
	}
	holds, err := w.Holds(ctx)
	if err != nil {
		return err
	}
	if !holds {
		return fmt.Errorf("%w: its epoch is %d, this one's %d", ErrFenced, epoch, w.Epoch)
	}
	return nil
}

// after returns the next version. Behind what is no plan it is the bucket's next
// revision: no version was larger than its own revision, so this one is larger
// than each that was ever legal.
func (s *Store) after(ctx context.Context, old Value) (uint64, error) {
	if old.Plan != nil {
		return old.Plan.Version + 1, nil
	}
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return 0, err
	}
	last, err := b.LastRevision(ctx)
	return last + 1, err
}

// put writes a key that has a revision; 0 is one that is not there, or deleted, for
// which it waits. done is told what came of it, unless put returns an error.
func (s *Store) put(ctx context.Context, key string, body []byte, revision uint64, done func(uint64, error)) error {
	if revision == 0 {
		done(s.kv.Create(ctx, key, body))
		return nil
	}
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return err
	}
	return b.Replace(ctx, key, body, revision, done)
}
