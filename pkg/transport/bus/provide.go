package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/schemas"
)

// Prefixes of streams that are not only that.
const bucketPrefix, objectsPrefix = "KV_", "OBJ_"

// WantStream is the stream that a spec is of. Its copies are the connection's to choose.
func WantStream(spec schemas.StreamSpec) jetstream.StreamConfig { return streamConfig(spec, 0) }

// WantBucket is the stream of a bucket, as of EnsureBucket.
func WantBucket(name string, ttl time.Duration, keys ...string) jetstream.StreamConfig {
	return bucketConfig(name, ttl, 0, keys)
}

// WantObjects is the stream of an object store.
func WantObjects(bucket string) jetstream.StreamConfig { return objectsConfig(bucket, 0) }

// Provision says how streams are made.
type Provision struct {
	// Replicas are those of Ensure.
	Replicas int
	// Change names streams to change in all that can be changed, and Remake those to
	// delete and make anew where that is not enough: what they hold may be lost.
	// Tensors stands for all streams in memory, and for those that other hops take.
	Change, Remake []string
}

func (p Provision) upTo(want config) Cure {
	if named(p.Change, want) || named(p.Remake, want) {
		return ByChange
	}
	return BySetup
}

func named(streams []string, want config) bool {
	return slices.Contains(streams, want.Name) || want.Storage == jetstream.MemoryStorage && slices.Contains(streams, Tensors)
}

// Provided is what became of a stream that is wanted.
type Provided struct {
	Stream jetstream.StreamConfig // as it is wanted
	Made   bool
	// Gone says that it is wanted no more, was there, and is deleted.
	Gone bool
	// Mended is what it was changed in, Left what it still differs in.
	Mended, Left []Difference
	asked        bool // a server was asked to make it
	err          error
}

// Provide makes streams that are missing, and mends of others what loses nothing. What it
// leaves is no error.
func (c *Conn) Provide(ctx context.Context, how Provision, want ...jetstream.StreamConfig) ([]Provided, error) {
	c.replicas.Store(int64(how.Replicas))
	all := make([]Provided, len(want))
	var failed atomic.Bool
	one := func(i int) {
		if failed.Load() {
			return // for want of room or a right, as the others will
		}
		p := &all[i]
		p.err = c.Persist(ctx, "making stream "+want[i].Name, func(ctx context.Context) error { return c.provide(ctx, how, want[i], p) })
		if p.err != nil {
			failed.Store(true)
		}
	}
	if len(want) > 0 {
		one(0) // alone, as of Ensure
	}
	parallel.Each(ensureAtOnce, 1, len(want), one)
	for _, p := range all {
		if p.err != nil {
			return nil, p.err // the others of the moment say the same
		}
	}
	return all, nil
}

func (c *Conn) provide(ctx context.Context, how Provision, want jetstream.StreamConfig, p *Provided) error {
	memory := want.Storage == jetstream.MemoryStorage
	stream, err := c.look(ctx, want.Name, memory)
	if want.Replicas = c.streamReplicas(); memory {
		want.Replicas = 1
	}
	p.Stream = want
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		p.asked = true
		stream, err = c.makeStream(ctx, want)
	}
	if err != nil {
		return err
	}
	p.Made = p.asked // in this attempt, or in one whose acknowledgement came too late
	c.foundStream(want.Name)
	p.Mended, p.Left, err = c.mend(ctx, stream.CachedInfo().Config, want, how.upTo(want))
	if err != nil || len(p.Left) == 0 || !named(how.Remake, want) {
		return err
	}
	if err := c.js.DeleteStream(ctx, want.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("deleting stream %s: %w", want.Name, err)
	}
	return errRemade
}

// Discard deletes those of some streams that are there. One that a server was asked in vain to delete, and that is not
// there at the next attempt, was deleted.
func (c *Conn) Discard(ctx context.Context, names ...string) (gone []Provided, err error) {
	for _, name := range names {
		deleted, asked := false, false
		err := c.Persist(ctx, "deleting stream "+name, func(ctx context.Context) error {
			err := c.deleteStream(ctx, name)
			deleted = err == nil || asked
			asked = true
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return gone, err
		}
		if deleted {
			gone = append(gone, Provided{Stream: jetstream.StreamConfig{Name: name}, Gone: true})
		}
	}
	return gone, nil
}

// deleteStream deletes a stream, or says that this user may not.
func (c *Conn) deleteStream(ctx context.Context, name string) error {
	begun := time.Now()
	err := c.js.DeleteStream(ctx, name)
	if denied := c.denials.of(begun, apiPrefix(c.js)+deleteCall+name); err != nil && denied != nil {
		return denied
	}
	return err
}

// errRemade says that a stream was deleted, and is to be made by the next attempt.
var errRemade = errors.New("the stream was deleted, to be made anew")

// Lost are those of the wanted streams that are not there. Memory streams of a cluster
// that nobody answers for are given up.
func (c *Conn) Lost(ctx context.Context, want ...jetstream.StreamConfig) (lost []jetstream.StreamConfig, err error) {
	ctx, cancel := context.WithTimeout(ctx, electionAttempt)
	defer cancel()
	there := map[string]bool{}
	names := c.js.StreamNames(ctx)
	for name := range names.Name() {
		there[name] = true
	}
	if err := names.Err(); err != nil {
		return nil, err
	}
	lost = slices.DeleteFunc(slices.Clone(want), func(w jetstream.StreamConfig) bool { return there[w.Name] })
	return lost, c.giveUp(ctx, slices.DeleteFunc(slices.Clone(want), func(w jetstream.StreamConfig) bool { return !there[w.Name] }))
}

// giveUp looks at memory streams that a cluster lists, and gives up those without an answer.
func (c *Conn) giveUp(ctx context.Context, listed []jetstream.StreamConfig) error {
	if !c.Clustered() {
		return nil
	}
	listed = slices.DeleteFunc(listed, func(w jetstream.StreamConfig) bool { return w.Storage != jetstream.MemoryStorage })
	errs := make([]error, len(listed))
	parallel.Each(max(1, len(listed)), 0, len(listed), func(i int) { _, errs[i] = c.look(ctx, listed[i].Name, true) })
	return errors.Join(errs...)
}
