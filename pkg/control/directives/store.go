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

// Keys of the bucket.
const (
	DirectiveKey = "directive"
	SettingsKey  = "settings"
)

// Keys returns all that the bucket has.
func Keys() []string { return []string{DirectiveKey, SettingsKey} }

var (
	// ErrConflict says that another controller wrote meanwhile.
	ErrConflict = errors.New("another controller wrote a directive")
	// ErrFenced says that one of a later epoch did: this one has lost its lease.
	ErrFenced = errors.New("a controller with a later lease wrote a directive")
)

// Written is what lies at DirectiveKey; Directive is nil if it is none.
type Written struct {
	Directive *pb.Directive
	// Epoch is the writer's as far as the value can be read.
	Epoch    uint64
	Revision uint64
}

// Wanted is what lies at SettingsKey.
type Wanted struct {
	Settings *pb.BrownoutSettings // nil: none that are legal
	Revision uint64
}

// Writer is who writes, under a lease.
type Writer struct {
	ID    string
	Epoch uint64
	// Holds asks whether the lease is this writer's still, where a larger epoch is found.
	Holds func(context.Context) (bool, error)
}

// Store is the bucket.
type Store struct {
	kv    jetstream.KeyValue
	rules Rules
}

// New returns what is in a bucket, which is from bus.EnsureBucket.
func New(kv jetstream.KeyValue, r Rules) *Store { return &Store{kv, r} }

// Read returns what lies in the bucket now.
func (s *Store) Read(ctx context.Context) (there Written, wanted Wanted, err error) {
	for _, key := range Keys() {
		entry, err := s.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return there, wanted, fmt.Errorf("reading key %s of bucket %s: %w", key, s.kv.Bucket(), err)
		}
		s.read(key, entry.Value(), entry.Revision(), func(w *Written, by *Wanted) {
			if w != nil {
				there = *w
			} else {
				wanted = *by
			}
		})
	}
	return there, wanted, nil
}

// Follow calls got with what lies at the keys, and with each change, until ctx ends: one of
// the two is set. What is not legal comes too, so that the controller replaces it. Neither is
// set where the bucket was made anew, and its revisions begin again.
func (s *Store) Follow(ctx context.Context, got func(*Written, *Wanted)) {
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return
	}
	for again := false; ctx.Err() == nil; again = true {
		if again {
			got(nil, nil)
		}
		_ = b.Follow(ctx, func(key string, value []byte, revision uint64) { s.read(key, value, revision, got) })
		_ = pause.For(ctx, retryEvery) // the loop sees the end of ctx
	}
}

func (s *Store) read(key string, value []byte, revision uint64, got func(*Written, *Wanted)) {
	switch key {
	case DirectiveKey:
		w := s.rules.decode(value, revision)
		got(&w, nil)
	case SettingsKey:
		w := s.rules.decodeSettings(value, revision)
		got(nil, &w)
	}
}

// decode reads a value; what is deleted is no directive, and nothing is wrong with it.
func (r Rules) decode(value []byte, revision uint64) Written {
	w := Written{Revision: revision}
	if len(value) == 0 {
		return w
	}
	d := &pb.Directive{}
	err := proto.Unmarshal(value, d)
	if err == nil {
		w.Epoch = d.WriterEpoch
		err = r.Check(d, revision)
	}
	if err != nil {
		r.tell(fmt.Errorf("reading key %s: %w", DirectiveKey, err))
		return w
	}
	w.Directive = d
	return w
}

func (r Rules) decodeSettings(value []byte, revision uint64) Wanted {
	w := Wanted{Revision: revision}
	if len(value) == 0 {
		return w
	}
	s := &pb.BrownoutSettings{}
	err := proto.Unmarshal(value, s)
	if err == nil {
		err = CheckSettings(s)
	}
	if err != nil {
		r.tell(fmt.Errorf("reading key %s: %w", SettingsKey, err))
		return w
	}
	w.Settings = s
	return w
}

func (r Rules) tell(err error) {
	if r.Illegal != nil {
		r.Illegal(err)
	}
}

// Write writes the next directive in place of what is there.
func (s *Store) Write(ctx context.Context, there Written, d *pb.Directive, by Writer) (Written, error) {
	if there.Epoch > by.Epoch {
		if holds, err := by.Holds(ctx); err != nil || !holds {
			return there, errors.Join(ErrFenced, err)
		}
	}
	d = proto.CloneOf(d)
	d.Model, d.Writer, d.WriterEpoch = s.rules.Model, by.ID, by.Epoch
	var err error
	if d.Version, err = s.after(ctx, there); err != nil {
		return there, err
	}
	body, err := proto.Marshal(d)
	if err != nil {
		return there, fmt.Errorf("encoding a directive: %w", err)
	}
	revision, err := put(ctx, s.kv, DirectiveKey, body, there.Revision)
	switch {
	case bus.IsWrongSequence(err):
		return there, ErrConflict
	case err != nil:
		return there, fmt.Errorf("writing a directive: %w", err)
	}
	return Written{Directive: d, Epoch: by.Epoch, Revision: revision}, nil
}

// after returns the next version. Behind what is no directive it is the bucket's next revision, which
// is larger than each version that was ever legal.
func (s *Store) after(ctx context.Context, there Written) (uint64, error) {
	if there.Directive != nil {
		return there.Directive.Version + 1, nil
	}
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return 0, err
	}
	last, err := b.LastRevision(ctx)
	return last + 1, err
}

// put writes a key that has a revision; 0 is one that is not there.
func put(ctx context.Context, kv jetstream.KeyValue, key string, body []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return kv.Create(ctx, key, body)
	}
	return kv.Update(ctx, key, body, revision)
}

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
