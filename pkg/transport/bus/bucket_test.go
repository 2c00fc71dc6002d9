package bus

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// A bucket that somebody has filled with keys of his own still takes what is renewed,
// however that grows.
func TestFullBucket(t *testing.T) {
	r := newRig(t)
	cfg := bucketConfig("full", time.Minute, 1)
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
