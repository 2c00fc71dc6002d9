package planstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// coalesce is how long changes gather before they are written: what ends
// together is said together.
const coalesce = 5 * time.Millisecond

// GateRests is a gate's Rest: no row waits for its word, and each word goes to every host. Hosts that
// drain wait for it, and so does a request that has its own plan (services/scaler): up to so long
// for each.
const GateRests = 200 * time.Millisecond

// Announcer keeps the keys of one replica as it wants them: it writes what has
// changed, and writes again what somebody else has changed. A nil one has none.
//
// The keys are what hosts say of their functions and gates of the plans that they use, in
// the bucket `functions`:
//
//	<layer>.<host>   HostLayer: all functions of a layer that a host has
//	gate.<gate>      GateLayers: the plan of each layer that a gate uses
//
// A key is written by the replica that it names, when something changes, and
// goes with it; the planner clears what the killed have left. Readers follow the
// bucket. Nothing in it counts by itself: a record is of use for as long as its
// replica is a member.
type Announcer struct {
	// Rest is the least time between what is written and what is written next.
	Rest time.Duration

	b     *bus.Bucket
	dirty chan struct{} // a note that there is something to write

	mu   sync.Mutex
	keys map[string]*said
	more chan struct{} // closed and replaced when there is another key
}

// said is a key's value.
type said struct {
	body    []byte
	written bool
	last    bool // the key goes when it is written
	// revision of the last write that was acknowledged, and of the last that was seen to
	// be another's.
	revision, others uint64
}

// NewAnnouncer returns one that has no keys yet. kv is from bus.EnsureBucket.
func NewAnnouncer(kv jetstream.KeyValue) (*Announcer, error) {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return nil, err
	}
	return &Announcer{b: b, dirty: make(chan struct{}, 1), keys: map[string]*said{}, more: make(chan struct{})}, nil
}

// Set says what a key holds from now on.
func (a *Announcer) Set(key string, value proto.Message) error { return a.set(key, value, false) }

// End says what a key holds last, which says nothing that matters: the key is cleared some
// seconds later.
func (a *Announcer) End(key string, value proto.Message) error { return a.set(key, value, true) }

func (a *Announcer) set(key string, value proto.Message, last bool) error {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(value)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[key]
	if k == nil {
		k = &said{}
		a.keys[key] = k
		close(a.more)
		a.more = make(chan struct{})
	}
	k.last = last
	if k.body == nil || !bytes.Equal(k.body, body) {
		k.body, k.written = body, false
		a.note()
	}
	return nil
}

func (a *Announcer) note() { pause.Wake(a.dirty) }

// layers returns those that it has a host's keys of; more is closed when there is another key.
func (a *Announcer) layers() (layers []int, more <-chan struct{}) {
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.keys {
		if layer, _, err := parseHostKey(key); err == nil {
			layers = append(layers, layer)
		}
	}
	slices.Sort(layers)
	return slices.Compact(layers), a.more
}

// saw looks at what lies at a key: somebody may have changed it.
func (a *Announcer) saw(key string, body []byte, revision uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[key]
	if k == nil || revision <= k.revision || bytes.Equal(k.body, body) {
		return
	}
	if k.others = revision; k.written { // else it is written now
		k.written = false
		a.note()
	}
}

// lost writes all anew: the bucket was made again.
func (a *Announcer) lost() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		k.written, k.revision, k.others = false, 0, 0
	}
	a.note()
}

// lookEvery is how often a replica looks whether its keys are there: a bucket that
// somebody fills drops what was written longest ago, and tells nobody.
const (
	lookEvery  = 10 * time.Second
	lookWithin = time.Second
)

// Run writes what changes, until ctx ends; then it clears the keys. Its error is that the
// server does not take them, as where the user has no right to write them. Where that comes
// later, it goes on, for somebody to mend it.
func (a *Announcer) Run(ctx context.Context) error {
	defer a.clear(context.WithoutCancel(ctx))
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for next := time.Now(); ; next = time.Now().Add(a.Rest) {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			a.look(ctx)
			continue
		case <-a.dirty:
		}
		if pause.For(ctx, max(coalesce, time.Until(next))) != nil {
			return nil
		}
		if err := a.write(ctx); err != nil {
			return fmt.Errorf("announcing functions: %w", err)
		}
	}
}

// look clears the keys that have ended, and has those written again that were pushed out.
func (a *Announcer) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	a.clearEnded(ctx)
	state, err := a.b.Conn().State(ctx, schemas.BucketStream(a.b.Bucket()))
	if err != nil {
		return // the next look is not far
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		if k.written && k.revision < state.First {
			k.written = false
			a.note()
		}
	}
}

// clearEnded does not wait: what gets lost says nothing that matters.
func (a *Announcer) clearEnded(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, k := range a.keys {
		if k.last && k.written {
			_ = a.b.Clear(ctx, key)
			delete(a.keys, key)
		}
	}
}

// write writes what is not written; an error is for good.
func (a *Announcer) write(ctx context.Context) error {
	for _, key := range a.unwritten() {
		a.mu.Lock()
		body := a.keys[key].body
		a.mu.Unlock()
		revision, err := a.b.Store(ctx, key, body)
		switch {
		case err == nil:
			a.wrote(key, body, revision)
		case bus.Lasts(err) && !a.begun():
			return err
		default:
			a.later(ctx) // what passes is tried again within Store
			return nil
		}
	}
	return nil
}

// begun reports whether any key was ever written.
func (a *Announcer) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		if k.revision > 0 {
			return true
		}
	}
	return false
}

// retryLater is the pause after an error that does not pass by itself, such as a
// right that was taken: the bus logs it.
const retryLater = time.Second

func (a *Announcer) later(ctx context.Context) {
	_ = pause.For(ctx, retryLater) // Run sees the end of ctx
	a.note()
}

func (a *Announcer) unwritten() (keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, k := range a.keys {
		if !k.written {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (a *Announcer) wrote(key string, body []byte, revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[key]
	k.revision = revision
	if k.written = bytes.Equal(k.body, body) && k.others < revision; !k.written {
		a.note()
	}
}

// clear does not wait: what is lost, the planner clears.
func (a *Announcer) clear(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.keys {
		_ = a.b.Clear(ctx, key)
	}
}
