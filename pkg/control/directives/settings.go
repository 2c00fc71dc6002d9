package directives

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// retryEvery is the pause before what has failed is tried again.
const retryEvery = 300 * time.Millisecond

// changeTries is how often a change is tried that others' changes get before.
const changeTries = 10

// Read returns what lies in a bucket, of whichever model; nil is what is not there.
func Read(ctx context.Context, kv jetstream.KeyValue) (*pb.Directive, *pb.BrownoutSettings, error) {
	d, s := &pb.Directive{}, &pb.BrownoutSettings{}
	there, err := get(ctx, kv, DirectiveKey, d)
	if there == 0 {
		d = nil
	}
	if err != nil {
		return nil, nil, err
	}
	if there, err = get(ctx, kv, SettingsKey, s); there == 0 {
		s = nil
	}
	return d, s, err
}

// get reads a key, and returns its revision; 0: it is not there.
func get(ctx context.Context, kv jetstream.KeyValue, key string, into proto.Message) (uint64, error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading key %s of bucket %s: %w", key, kv.Bucket(), err)
	}
	if err := proto.Unmarshal(entry.Value(), into); err != nil {
		return 0, fmt.Errorf("%w: decoding key %s: %w", ErrIllegal, key, err)
	}
	return entry.Revision(), nil
}

// Change writes what an operator wants in place of what is there, and returns its revision. What is
// not legal there counts as nothing.
func Change(ctx context.Context, kv jetstream.KeyValue, change func(old *pb.BrownoutSettings) *pb.BrownoutSettings) (revision uint64, err error) {
	for range changeTries {
		old := &pb.BrownoutSettings{}
		there, err := get(ctx, kv, SettingsKey, old)
		if errors.Is(err, ErrIllegal) {
			there, err = revisionOf(ctx, kv)
		}
		if err != nil {
			return 0, err
		}
		if CheckSettings(old) != nil {
			old = &pb.BrownoutSettings{}
		}
		want := change(old)
		if err := CheckSettings(want); err != nil {
			return 0, err
		}
		body, err := proto.Marshal(want)
		if err != nil {
			return 0, fmt.Errorf("encoding what is wanted of brownouts: %w", err)
		}
		revision, err := put(ctx, kv, SettingsKey, body, there)
		if !bus.IsWrongSequence(err) {
			return revision, err
		}
	}
	return 0, fmt.Errorf("changing what is wanted of brownouts: others changed it meanwhile, %d times; try again", changeTries)
}

// revisionOf is that of settings that cannot be read.
func revisionOf(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
	entry, err := kv.Get(ctx, SettingsKey)
	if err != nil {
		return 0, fmt.Errorf("reading key %s: %w", SettingsKey, err)
	}
	return entry.Revision(), nil
}

// ErrUnfollowed says that no controller has taken up what is wanted in time.
var ErrUnfollowed = errors.New("no controller has taken it up")

// Await reads the directive until it follows settings of a revision.
func Await(ctx context.Context, kv jetstream.KeyValue, revision uint64) (*pb.Directive, error) {
	for {
		d, _, err := Read(ctx, kv)
		switch {
		case ctx.Err() != nil:
			return nil, ErrUnfollowed
		case err != nil && !errors.Is(err, ErrIllegal):
			return nil, err
		case d.GetSettingsRevision() >= revision:
			return d, nil
		}
		_ = pause.For(ctx, retryEvery/3) // the next look sees the end of ctx
	}
}
