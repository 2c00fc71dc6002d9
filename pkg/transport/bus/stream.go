package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/schemas"
)

// clusterReplicas survive the loss of one server.
const clusterReplicas = 3

// Ensure creates streams that do not exist, as Persist does. One that exists with another
// configuration is reported as a *MismatchError and not changed, but for what this version
// needs and loses nothing (ByService). replicas, of file streams, 0 means one on a single
// server and three on a cluster.
func (c *Conn) Ensure(ctx context.Context, replicas int, specs ...schemas.StreamSpec) error {
	c.replicas.Store(int64(replicas))
	errs := make([]error, len(specs))
	ensure := func(i int) {
		errs[i] = c.Persist(ctx, "creating stream "+specs[i].Name, func(ctx context.Context) error { return c.ensure(ctx, specs[i]) })
	}
	if len(specs) > 0 {
		ensure(0) // alone: it waits until the server answers, and says so once
	}
	if missing := c.stillMissing(ctx, errs, specs); missing != nil {
		return missing
	}
	if ctx.Err() == nil && !c.nc.IsClosed() {
		parallel.Each(ensureAtOnce, 1, len(specs), ensure)
	}
	if ctx.Err() != nil || c.nc.IsClosed() {
		return cmp.Or(errs...) // the others say the same
	}
	return errors.Join(errs...)
}

// stillMissing is an error with all that is missing, where nobody has made the first one
// in time: the others are not waited for as well.
func (c *Conn) stillMissing(ctx context.Context, errs []error, specs []schemas.StreamSpec) error {
	var missing *MissingError
	if ctx.Err() != nil || len(errs) == 0 || !errors.As(errs[0], &missing) {
		return nil
	}
	for _, spec := range specs[1:] {
		if errors.As(c.attempt(ctx, createWithin, func(ctx context.Context) error { return c.ensure(ctx, spec) }), new(*MissingError)) {
			missing.Streams = append(missing.Streams, spec.Name)
		}
	}
	return missing
}

// ensureAtOnce bounds the streams that are looked for at a time. A model has dozens, and
// on a busy machine each answer is late.
const ensureAtOnce = 4

func (c *Conn) ensure(ctx context.Context, spec schemas.StreamSpec) error {
	stream, err := c.look(ctx, spec.Name, spec.Memory)
	want := streamConfig(spec, c.streamReplicas()) // after an answer: only then the cluster is known
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = c.makeStream(ctx, want)
	}
	if err != nil {
		return err
	}
	c.foundStream(spec.Name)
	_, left, err := c.mend(ctx, stream.CachedInfo().Config, want, ByService)
	if lacking := needed(left); len(lacking) < len(left) {
		c.log.Info("a stream has wider bounds than it need have", "stream", spec.Name, "differences", left, "command", left[0].Command())
		left = lacking
	}
	return errors.Join(err, c.mismatch(stream.CachedInfo().Config, left))
}

func (c *Conn) streamReplicas() int {
	if n := int(c.replicas.Load()); n > 0 {
		return n
	}
	if c.Clustered() && !c.alone.Load() {
		return clusterReplicas
	}
	return 1
}

func streamConfig(spec schemas.StreamSpec, replicas int) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:     spec.Name,
		Subjects: spec.Subjects,
		MaxAge:   spec.MaxAge,
		MaxBytes: spec.MaxBytes,
		// -1: as many as there is room for.
		MaxMsgsPerSubject: cmp.Or(spec.MaxPerSubject, -1),
		Replicas:          replicas,
		Storage:           jetstream.FileStorage,
		// What is accepted is kept: a full queue must say no.
		Discard:     jetstream.DiscardNew,
		AllowRollup: spec.Rollup,
		MaxMsgs:     cmp.Or(spec.MaxMessages, -1),
		MaxMsgSize:  spec.MaxMessage,
		Duplicates:  spec.Copies,
	}
	if spec.DropOldest {
		cfg.Discard = jetstream.DiscardOld
	}
	if spec.Memory {
		// Tensors can be computed again, and the newest are the ones still wanted.
		// A second copy would cost each hop a round trip between servers.
		cfg.Storage, cfg.Discard, cfg.Replicas = jetstream.MemoryStorage, jetstream.DiscardOld, 1
	}
	if spec.Refuses {
		cfg.Discard = jetstream.DiscardNew
	}
	cfg.AllowDirect = spec.Direct
	if spec.MaxBytes == 0 {
		cfg.MaxBytes = -1
	}
	cfg.Retention = [...]jetstream.RetentionPolicy{
		schemas.Limits: jetstream.LimitsPolicy, schemas.WorkQueue: jetstream.WorkQueuePolicy, schemas.Interest: jetstream.InterestPolicy,
	}[spec.Retention]
	return cfg
}

// DeleteConsumer removes a consumer that no replica uses any more; one that is
// already gone is no error.
func (c *Conn) DeleteConsumer(ctx context.Context, stream, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := c.js.DeleteConsumer(ctx, stream, name)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return fmt.Errorf("deleting consumer %s of stream %s: %w", name, stream, err)
}
