package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A bucket that keeps earlier values of its keys is read once.
func TestEntriesWithHistory(t *testing.T) {
	r := newRig(t)
	kv, err := r.conn.js.CreateKeyValue(r.ctx(), jetstream.KeyValueConfig{Bucket: "kept", History: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a", "b", "c"} {
		if _, err := kv.Put(r.ctx(), "one", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := Entries(r.ctx(), kv); err != nil || len(all) != 1 || string(all["one"].Value()) != "c" {
		t.Errorf("%v, %v", all, err)
	}
}

// No key is left out while all are renewed, and a deleted one is not told.
func TestEntries(t *testing.T) {
	r := newRig(t)
	kv, err := r.conn.EnsureBucket(r.ctx(), 1, "renewed", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 8
	ctx, stop := context.WithCancel(r.ctx())
	var renewing sync.WaitGroup
	for i := range keys {
		if _, err := kv.Put(ctx, fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
		renewing.Go(func() {
			for ctx.Err() == nil {
				_, _ = kv.Put(ctx, fmt.Sprint(i), nil) // it fails when ctx ends
			}
		})
	}
	if _, err := kv.Put(ctx, "gone", nil); err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if all, err := Entries(ctx, kv); err != nil || len(all) != keys || all["gone"] != nil {
			t.Errorf("%d keys of %d, %v", len(all), keys, err)
			break
		}
	}
	stop()
	renewing.Wait()
	if _, err := Entries(ctx, kv); err == nil {
		t.Error("entries after ctx has ended")
	}
}
