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

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HeadKey is the key of the plan's head.
const HeadKey = "head"

// ErrConflict says that another planner wrote meanwhile.
var ErrConflict = errors.New("another planner wrote the plan")

// Plan is a whole plan of one version.
type Plan struct {
	Head   *pb.PlanHead
	Layers []*pb.LayerPlan
	// Revision of the head, for Write.
	Revision uint64
}

// Version is the plan's version, 0 for none.
func (p *Plan) Version() uint64 {
	if p == nil {
		return 0
	}
	return p.Head.Version
}

// RevisionOf is what Write wants to replace this plan; a nil one can be replaced, too.
func (p *Plan) RevisionOf() uint64 {
	if p == nil {
		return 0
	}
	return p.Revision
}

// Read returns the newest plan, or nil if there is none yet. Layers that
// a planner left half written make it an error, beside the head that was read.
func Read(ctx context.Context, kv jetstream.KeyValue) (*Plan, error) {
	entry, err := kv.Get(ctx, HeadKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the plan's head: %w", err)
	}
	head := &pb.PlanHead{}
	if err := proto.Unmarshal(entry.Value(), head); err != nil {
		return nil, fmt.Errorf("decoding the plan's head: %w", err)
	}
	p := &Plan{Head: head, Revision: entry.Revision()}
	for _, l := range head.Layers {
		layer, err := readLayer(ctx, kv, l, head)
		if err != nil {
			return p, err
		}
		p.Layers = append(p.Layers, layer)
	}
	return p, nil
}

func readLayer(ctx context.Context, kv jetstream.KeyValue, layer uint32, head *pb.PlanHead) (*pb.LayerPlan, error) {
	entry, err := kv.Get(ctx, layerKey(layer))
	if err != nil {
		return nil, fmt.Errorf("reading the plan of layer %d: %w", layer, err)
	}
	lp := &pb.LayerPlan{}
	if err := proto.Unmarshal(entry.Value(), lp); err != nil {
		return nil, fmt.Errorf("decoding the plan of layer %d: %w", layer, err)
	}
	if lp.Version != head.Version || lp.WriterEpoch != head.WriterEpoch {
		return nil, fmt.Errorf("reading the plan of layer %d: it has version %d of writer %d, the head %d of %d: a new plan is being written",
			layer, lp.Version, lp.WriterEpoch, head.Version, head.WriterEpoch)
	}
	return lp, nil
}

func layerKey(layer uint32) string { return strconv.FormatUint(uint64(layer), 10) }

// Write makes layers the plan. The head must still be at revision (0: there is
// none); ErrConflict says that it is not. A writer that lost may have replaced
// layers by then; the writer's epoch lets readers see that, and the next plan
// mends it.
func Write(ctx context.Context, kv jetstream.KeyValue, head *pb.PlanHead, layers []*pb.LayerPlan, revision uint64) error {
	head.Layers = head.Layers[:0]
	for _, l := range layers {
		l.Version, l.WriterEpoch = head.Version, head.WriterEpoch
		head.Layers = append(head.Layers, l.Layer)
		body, err := proto.Marshal(l)
		if err != nil {
			return fmt.Errorf("encoding the plan of layer %d: %w", l.Layer, err)
		}
		if _, err := kv.Put(ctx, layerKey(l.Layer), body); err != nil {
			return fmt.Errorf("writing the plan of layer %d: %w", l.Layer, err)
		}
	}
	return writeHead(ctx, kv, head, revision)
}

func writeHead(ctx context.Context, kv jetstream.KeyValue, head *pb.PlanHead, revision uint64) error {
	body, err := proto.Marshal(head)
	if err != nil {
		return fmt.Errorf("encoding the plan's head: %w", err)
	}
	_, err = kv.Update(ctx, HeadKey, body, revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("writing the plan's head: %w", err)
	}
	return nil
}

// Follow calls got with every new plan until ctx ends, beginning with the one
// that is there. It begins again when the watch breaks.
func Follow(ctx context.Context, kv jetstream.KeyValue, log *slog.Logger, got func(*Plan)) {
	f := follower{kv: kv, got: got}
	for ctx.Err() == nil {
		if err := f.watch(ctx); err != nil && ctx.Err() == nil {
			log.Warn("following the plan; trying again", "error", err)
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
	kv   jetstream.KeyValue
	got  func(*Plan)
	last uint64
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
		if err := f.read(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) read(ctx context.Context) error {
	p, err := Read(ctx, f.kv)
	if err == nil && p.Version() > f.last {
		f.last = p.Version()
		f.got(p)
	}
	return err
}
