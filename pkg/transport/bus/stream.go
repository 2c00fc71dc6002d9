package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/parallel"
	"github.com/switchyard/switchyard/schemas"
)

// clusterReplicas survive the loss of one server.
const clusterReplicas = 3

// Ensure creates streams that do not exist, as Persist does. One that exists with another
// configuration is reported as a *MismatchError and not changed, but for subjects
// that it lacks. replicas, of file streams, 0 means one on a single server and
// three on a cluster.
func (c *Conn) Ensure(ctx context.Context, replicas int, specs ...schemas.StreamSpec) error {
	c.replicas.Store(int64(replicas))
	errs := make([]error, len(specs))
	ensure := func(i int) {
		errs[i] = c.Persist(ctx, "creating stream "+specs[i].Name, func(ctx context.Context) error { return c.ensure(ctx, specs[i]) })
	}
	if len(specs) > 0 {
		ensure(0) // alone: it waits until the server answers, and says so once
	}
	if ctx.Err() == nil && !c.nc.IsClosed() {
		parallel.Each(ensureAtOnce, 1, len(specs), ensure)
	}
	if ctx.Err() != nil || c.nc.IsClosed() {
		return cmp.Or(errs...) // the others say the same
	}
	return errors.Join(errs...)
}

// ensureAtOnce bounds the streams that are looked for at a time. A model has dozens, and
// on a busy machine each answer is late.
const ensureAtOnce = 4

func (c *Conn) ensure(ctx context.Context, spec schemas.StreamSpec) error {
	stream, err := c.look(ctx, spec)
	want := streamConfig(spec, c.streamReplicas()) // after an answer: only then the cluster is known
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if stream, err = nil, c.missingStream(spec.Name); err == nil || spec.Memory {
			stream, err = c.create(ctx, want)
		}
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created by a sibling meanwhile, otherwise than wanted
		stream, err = c.js.Stream(ctx, spec.Name)
	}
	if err != nil {
		return err
	}
	c.foundStream(spec.Name)
	have, what := adapted(stream.CachedInfo().Config, want)
	if len(what) > 0 {
		if _, err := c.js.UpdateStream(ctx, have); err != nil {
			return fmt.Errorf("changing stream %s, to have %s: %w", spec.Name, strings.Join(what, " and "), err)
		}
		c.log.Info("a stream of an older version was changed", "stream", spec.Name, "now", what)
	}
	return compare(have, want)
}

// adapted is a stream's configuration with what may change without losing anything or
// letting more in, and what that is.
func adapted(have, want jetstream.StreamConfig) (to jetstream.StreamConfig, what []string) {
	if gained(have.Subjects, want.Subjects) {
		have.Subjects = want.Subjects
		what = append(what, fmt.Sprintf("subjects %v", want.Subjects))
	}
	if want.Duplicates > 0 && have.Duplicates != want.Duplicates {
		have.Duplicates = want.Duplicates
		what = append(what, fmt.Sprintf("a window of %v for copies", want.Duplicates))
	}
	return have, what
}

// gained says whether a stream is only to take more subjects than it has, as of
// an older version: that loses nothing.
func gained(have, want []string) bool {
	return len(have) < len(want) && !slices.ContainsFunc(have, func(s string) bool { return !slices.Contains(want, s) })
}

func (c *Conn) streamReplicas() int {
	if n := int(c.replicas.Load()); n > 0 {
		return n
	}
	if c.Clustered() {
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
	if spec.MaxBytes == 0 {
		cfg.MaxBytes = -1
	}
	cfg.Retention = [...]jetstream.RetentionPolicy{
		schemas.Limits: jetstream.LimitsPolicy, schemas.WorkQueue: jetstream.WorkQueuePolicy, schemas.Interest: jetstream.InterestPolicy,
	}[spec.Retention]
	return cfg
}

// compare reports the first field that matters and differs.
func compare(have, want jetstream.StreamConfig) error {
	for _, f := range []struct{ name, have, want string }{
		{"subjects", fmt.Sprint(slices.Sorted(slices.Values(have.Subjects))), fmt.Sprint(slices.Sorted(slices.Values(want.Subjects)))},
		{"retention", have.Retention.String(), want.Retention.String()},
		{"storage", have.Storage.String(), want.Storage.String()},
		{"discard policy", have.Discard.String(), want.Discard.String()},
		{"maximum age", have.MaxAge.String(), want.MaxAge.String()},
		{"maximum bytes", strconv.FormatInt(have.MaxBytes, 10), strconv.FormatInt(want.MaxBytes, 10)},
		{"maximum messages of a subject", strconv.FormatInt(have.MaxMsgsPerSubject, 10), strconv.FormatInt(want.MaxMsgsPerSubject, 10)},
		{"rollups allowed:", strconv.FormatBool(have.AllowRollup), strconv.FormatBool(want.AllowRollup)},
		{"replicas", strconv.Itoa(have.Replicas), strconv.Itoa(want.Replicas)},
	} {
		if f.have != f.want {
			return &MismatchError{Stream: want.Name, Field: f.name, Have: f.have, Want: f.want}
		}
	}
	return nil
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
