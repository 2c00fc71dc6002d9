package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// A bucket that somebody has filled with keys of his own still takes what is renewed,
// however that grows.
func TestFullBucket(t *testing.T) {
	r := newRig(t)
	cfg := bucketConfig("full", time.Minute, 1, nil)
	cfg.MaxBytes = 16 << 10
	if _, err := r.conn.js.CreateStream(r.ctx(), cfg); err != nil {
		t.Fatal(err)
	}
	kv, err := r.conn.EnsureBucket(r.ctx(), 1, "full", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := r.conn.SendBytes(r.ctx(), KeySubject("full", fmt.Sprint("garbage-", i)), make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	for size := range 3 {
		value := make([]byte, 100*size)
		if _, err := b.Store(r.ctx(), "lease", value); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(r.ctx(), "lease"); err != nil || !bytes.Equal(got.Value(), value) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if state, err := r.conn.State(r.ctx(), cfg.Name); err != nil || state.Bytes > uint64(cfg.MaxBytes) {
		t.Errorf("%+v, %v", state, err)
	}
}

// A bucket with keys of its own stores nothing else, has room for all of them at their
// largest, and takes none for all others. Another model's further keys are added.
func TestBucketOfKeys(t *testing.T) {
	r := newRig(t)
	open := func(keys ...string) *Bucket {
		t.Helper()
		kv, err := r.conn.EnsureBucket(r.ctx(), 1, "own", 0, keys...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := AsBucket(kv)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open("a", "b")
	if _, err := b.Put(r.ctx(), "a", []byte("first")); err != nil {
		t.Fatal(err)
	}
	open("a", "c")
	if _, err := b.Put(r.ctx(), "c", []byte("later")); err != nil {
		t.Error(err)
	}
	all := nats.NewMsg(KeySubject("own", "b"))
	all.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupAll)
	if _, err := r.conn.js.PublishMsg(r.ctx(), all); err == nil {
		t.Error("a message took the place of all others")
	}
	if _, err := r.conn.js.Publish(r.ctx(), KeySubject("own", "d"), nil, jetstream.WithRetryAttempts(0)); err == nil {
		t.Error("a key of somebody else's was stored")
	}
	if keys, err := b.Keys(r.ctx()); err != nil || !slices.Equal(keys, []string{"a", "c"}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	seen := make(chan string, 2)
	ctx, stop := context.WithCancel(r.ctx())
	defer stop()
	following := make(chan error, 1)
	go func() { following <- b.Follow(ctx, func(key string, _ []byte, _ uint64) { seen <- key }) }()
	if got := []string{<-seen, <-seen}; !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v was followed", got)
	}
	stop()
	if err := <-following; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, keys := range []int{1, 62, 1025} {
		if most := int64(keys) * (int64(valueBytes(keys)) + aboutValue); most > schemas.BucketBytes || most < schemas.BucketBytes/2 {
			t.Errorf("%d keys take %d bytes at most", keys, most)
		}
	}
}
