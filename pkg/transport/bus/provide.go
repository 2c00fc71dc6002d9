package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/parallel"
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

// Provided is what became of a stream that is wanted.
type Provided struct {
	Stream jetstream.StreamConfig // as it is wanted
	Made   bool
	// Mended is what it was changed in, Left what it still differs in.
	Mended, Left []Difference
	err          error
}

// Provide makes streams that are missing, and mends of others what loses nothing. What it
// leaves is no error. replicas are those of Ensure.
func (c *Conn) Provide(ctx context.Context, replicas int, want ...jetstream.StreamConfig) ([]Provided, error) {
	c.replicas.Store(int64(replicas))
	all := make([]Provided, len(want))
	one := func(i int) {
		p := &all[i]
		p.err = c.Persist(ctx, "making stream "+want[i].Name, func(ctx context.Context) error { return c.provide(ctx, want[i], p) })
	}
	if len(want) > 0 {
		one(0) // alone, as of Ensure
	}
	if len(want) > 0 && all[0].err == nil {
		parallel.Each(ensureAtOnce, 1, len(want), one)
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, p.err)
	}
	return all, errors.Join(errs...)
}

func (c *Conn) provide(ctx context.Context, want jetstream.StreamConfig, p *Provided) error {
	memory := want.Storage == jetstream.MemoryStorage
	stream, err := c.look(ctx, want.Name, memory)
	if want.Replicas = c.streamReplicas(); memory {
		want.Replicas = 1
	}
	p.Stream = want
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = c.makeStream(ctx, want)
		p.Made = err == nil
	}
	if err != nil {
		return err
	}
	c.foundStream(want.Name)
	p.Mended, p.Left, err = c.mend(ctx, stream.CachedInfo().Config, want, BySetup)
	return err
}

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
