// Package planstore keeps the plan in a key-value bucket: one key a layer and
// a head, which is written last and makes the layers of its version the plan.
package planstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HeadKey is the key of the plan's head.
const HeadKey = "head"

var (
	// ErrConflict says that another planner wrote meanwhile.
	ErrConflict = errors.New("another planner wrote the plan")
	// ErrIllegal says that what the bucket holds is no plan of this model: it
	// cannot be read, contradicts itself, or is being replaced. The planner
	// writes a new one; others wait for that.
	ErrIllegal = errors.New("the bucket holds no legal plan")
)

// Settings say what a legal plan is.
type Settings struct {
	Kind      schemas.Kind
	MoELayers []int
	Experts   int
}

// Store is a model's plan in its bucket.
type Store struct {
	kv jetstream.KeyValue
	s  Settings
}

// New returns the plan in a bucket.
func New(kv jetstream.KeyValue, s Settings) *Store { return &Store{kv, s} }

// Plan is a whole plan of one version, or, beside ErrIllegal, what is in its place.
type Plan struct {
	Head   *pb.PlanHead // nil beside ErrIllegal if it cannot be read
	Layers []*pb.LayerPlan
	// Table is nil for what is not legal.
	Table *plan.Table
	// revision of the head, for Write.
	revision uint64
}

// Version is the plan's version, 0 for none.
func (p *Plan) Version() uint64 {
	if p == nil || !p.continues() {
		return 0
	}
	return p.Head.Version
}

// continues says whether a next version can follow this head's. A head's
// version grows by one while its revision, which the server counts, grows by
// one for each layer, too: a larger version is a forgery.
func (p *Plan) continues() bool { return p.Head.GetVersion() > 0 && p.Head.Version <= p.revision }

// Read returns the newest plan, or nil if there is none. Beside ErrIllegal it
// returns what is to be replaced.
func (s *Store) Read(ctx context.Context) (*Plan, error) {
	entry, err := s.kv.Get(ctx, HeadKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the plan's head: %w", err)
	}
	p := &Plan{revision: entry.Revision()}
	head := &pb.PlanHead{}
	if err := proto.Unmarshal(entry.Value(), head); err != nil {
		return p, fmt.Errorf("%w: decoding the head: %w", ErrIllegal, err)
	}
	p.Head = head
	if err := s.checkHead(p); err != nil {
		return p, err
	}
	if p.Layers, err = s.readLayers(ctx, head); err != nil {
		return p, err
	}
	if p.Table, err = plan.NewTable(head.Version, p.Layers, s.s.MoELayers, s.s.Experts); err != nil {
		return p, fmt.Errorf("%w: %w", ErrIllegal, err)
	}
	return p, nil
}

// checkHead is done before any loop follows the head's layers.
func (s *Store) checkHead(p *Plan) error {
	if !p.continues() {
		return fmt.Errorf("%w: the head of revision %d has version %d", ErrIllegal, p.revision, p.Head.Version)
	}
	if there := schemas.KindOf(p.Head); there != s.s.Kind {
		return fmt.Errorf("%w: plan %d is for %v; this replica is %v", ErrIllegal, p.Head.Version, there, s.s.Kind)
	}
	if n := len(p.Head.Layers); n != len(s.s.MoELayers) {
		return fmt.Errorf("%w: plan %d has %d layers, the model %d with experts", ErrIllegal, p.Head.Version, n, len(s.s.MoELayers))
	}
	return nil
}

func (s *Store) readLayers(ctx context.Context, head *pb.PlanHead) (layers []*pb.LayerPlan, err error) {
	for _, l := range head.Layers {
		layer, err := s.readLayer(ctx, l, head)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

func (s *Store) readLayer(ctx context.Context, layer uint32, head *pb.PlanHead) (*pb.LayerPlan, error) {
	entry, err := s.kv.Get(ctx, layerKey(layer))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: layer %d is not there", ErrIllegal, layer)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the plan of layer %d: %w", layer, err)
	}
	lp := &pb.LayerPlan{}
	if err := proto.Unmarshal(entry.Value(), lp); err != nil {
		return nil, fmt.Errorf("%w: decoding layer %d: %w", ErrIllegal, layer, err)
	}
	if lp.Layer != layer || lp.Version != head.Version || lp.WriterEpoch != head.WriterEpoch {
		return nil, fmt.Errorf("%w: the key of layer %d has layer %d of version %d of writer %d, the head version %d of %d: a new plan is being written",
			ErrIllegal, layer, lp.Layer, lp.Version, lp.WriterEpoch, head.Version, head.WriterEpoch)
	}
	return lp, nil
}

func layerKey(layer uint32) string { return strconv.FormatUint(uint64(layer), 10) }

// Write makes layers the plan in place of old, which Read returned; it sets
// what the head says of version, kind and layers. ErrConflict says that the
// head is another one by now. A writer that lost may have replaced layers by
// then; the writer's epoch lets readers see that, and the next plan mends it.
func (s *Store) Write(ctx context.Context, head *pb.PlanHead, layers []*pb.LayerPlan, old *Plan) (err error) {
	if head.Version, err = s.after(ctx, old); err != nil {
		return err
	}
	head.ModelHash, head.NumericClass, head.Wire = s.s.Kind.ModelHash, s.s.Kind.NumericClass, s.s.Kind.Wire
	head.Layers = head.Layers[:0]
	for _, l := range layers {
		l.Version, l.WriterEpoch = head.Version, head.WriterEpoch
		head.Layers = append(head.Layers, l.Layer)
		body, err := proto.Marshal(l)
		if err != nil {
			return fmt.Errorf("encoding the plan of layer %d: %w", l.Layer, err)
		}
		if _, err := s.kv.Put(ctx, layerKey(l.Layer), body); err != nil {
			return fmt.Errorf("writing the plan of layer %d: %w", l.Layer, err)
		}
	}
	return s.writeHead(ctx, head, old)
}

// after is the next version. Where none can be continued it is the bucket's
// next revision: no head had a larger version than its own revision, so this
// one is larger than each that was ever legal.
func (s *Store) after(ctx context.Context, old *Plan) (uint64, error) {
	if v := old.Version(); v > 0 {
		return v + 1, nil
	}
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return 0, err
	}
	last, err := b.LastRevision(ctx)
	return last + 1, err
}

func (s *Store) writeHead(ctx context.Context, head *pb.PlanHead, old *Plan) error {
	body, err := proto.Marshal(head)
	if err != nil {
		return fmt.Errorf("encoding the plan's head: %w", err)
	}
	if old == nil {
		_, err = s.kv.Create(ctx, HeadKey, body) // also behind a deletion
	} else {
		_, err = s.kv.Update(ctx, HeadKey, body, old.revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("writing the plan's head: %w", err)
	}
	return nil
}

// Follow calls got with every new plan until ctx ends, beginning with the one
// that is there. It begins again when the watch breaks, and waits while there
// is no legal plan.
func (s *Store) Follow(ctx context.Context, log *slog.Logger, got func(*Plan)) {
	f := follower{Store: s, got: got, log: log}
	for ctx.Err() == nil {
		if err := f.watch(ctx); err != nil && ctx.Err() == nil {
			f.say(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// retryEvery is the pause before a broken watch begins again, and before a
// plan that was being replaced is read again.
const retryEvery = 300 * time.Millisecond

type follower struct {
	*Store
	got  func(*Plan)
	last uint64
	log  *slog.Logger
	said string // the error that was logged last
}

// say logs an error when it is another one than before.
func (f *follower) say(err error) {
	if err.Error() != f.said {
		f.said = err.Error()
		f.log.Warn("no plan to follow; trying again", "error", err)
	}
}

func (f *follower) watch(ctx context.Context) error {
	watcher, err := f.kv.Watch(ctx, HeadKey)
	if err != nil {
		return fmt.Errorf("watching the plan: %w", err)
	}
	defer func() { _ = watcher.Stop() }()
	// A watch does not tell when its server lost it, so the head is read from
	// time to time as well.
	again := time.NewTicker(5 * time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-watcher.Updates():
			if !open {
				return errors.New("watching the plan: the server ended the watch")
			}
		case <-again.C:
		}
		if err := f.take(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) take(ctx context.Context) error {
	p, err := f.Read(ctx)
	switch {
	case errors.Is(err, ErrIllegal):
		f.say(err) // what mends it is a new head
		return nil
	case err != nil:
		return err
	case p.Version() > f.last:
		f.last, f.said = p.Version(), ""
		f.got(p)
	}
	return nil
}
