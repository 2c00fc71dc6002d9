package planstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Records that did not fit are read when others have gone.
func TestFull(t *testing.T) {
	conn := testserver.Connect(t)
	kv, err := conn.EnsureBucket(t.Context(), 1, "functions", 0)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, r proto.Message) {
		t.Helper()
		if err := conn.SendBytes(t.Context(), bus.KeySubject(kv.Bucket(), key), encodeFunctions(t, r), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxReplicas {
		id := fmt.Sprintf("forged-%d", i)
		put(HostKey(3, id), &pb.HostLayer{Host: id, Layer: 3})
		put(GateKey(id), &pb.GateLayers{Gate: id})
	}
	put(HostKey(3, "a"), warmOn("a", one))
	put(GateKey("g"), &pb.GateLayers{Gate: "g", Versions: map[uint32]uint64{3: 7}})
	var refused atomic.Int64
	s := rules
	s.Illegal = func(error) { refused.Add(1) }
	v, err := NewFunctionView(kv, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { v.Follow(ctx, nil, func(FunctionChange) {}) })
	t.Cleanup(func() { stop(); following.Wait() })
	testkit.Eventually(t, "both refused", func() bool { return refused.Load() >= 2 })
	for _, key := range []string{HostKey(3, "forged-0"), GateKey("forged-0")} {
		if err := v.Clear(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "room for the host and the gate", func() bool { return len(v.Replicas(3, one)) == 1 && v.Acknowledged("g", 3) == 7 })
}

// What was pushed out of a bucket that somebody has filled is written again.
func TestPushedOut(t *testing.T) {
	conn := testserver.Connect(t)
	kv, err := conn.EnsureBucket(t.Context(), 1, "functions", 0)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.JetStream().Stream(t.Context(), schemas.BucketStream("functions"))
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxBytes = 4 << 10
	if _, err := conn.JetStream().UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	a, err := NewAnnouncer(kv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	key := HostKey(3, "a")
	if err := a.Set(key, warmOn("a", one)); err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		_, err := kv.Get(t.Context(), key)
		return err == nil
	}
	testkit.Eventually(t, "it is there", there)
	for i := range 200 {
		if err := conn.SendBytes(t.Context(), bus.KeySubject("functions", fmt.Sprint("garbage-", i)), make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "it is pushed out", func() bool { return !there() })
	testkit.Eventually(t, "it is back", func() bool { a.look(t.Context()); return there() })
}

// A bucket that does not take a key ends who has never written one there. Who has goes on,
// and writes it when the bucket takes it again.
func TestRefused(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprint("begun ", begun), func(t *testing.T) {
			conn := testserver.Connect(t)
			kv, err := conn.EnsureBucket(t.Context(), 1, "functions", 0)
			if err != nil {
				t.Fatal(err)
			}
			a, err := NewAnnouncer(kv)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			defer stop()
			key := HostKey(3, "a")
			there := func() bool {
				_, err := kv.Get(t.Context(), key)
				return err == nil
			}
			if begun {
				set(t, a, HostKey(2, "a"))
				testkit.Eventually(t, "the first is written", a.begun)
			}
			var tries atomic.Int64
			unfollow, err := conn.FollowKeys("functions", key, func(string, []byte, bool) { tries.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			defer unfollow()
			limit(t, conn, 1)
			set(t, a, key)
			if !begun {
				if err := <-ended; !bus.Lasts(err) || there() {
					t.Errorf("it ended with %v", err)
				}
				return
			}
			testkit.Eventually(t, "it is tried again", func() bool { return tries.Load() > 1 })
			limit(t, conn, -1)
			testkit.Eventually(t, "it is written", there)
			stop()
			if err := <-ended; err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func set(t *testing.T, a *Announcer, key string) {
	t.Helper()
	if err := a.Set(key, warmOn("a", one)); err != nil {
		t.Fatal(err)
	}
}

// limit bounds the bytes of a value; -1 does not.
func limit(t *testing.T, conn *bus.Conn, bytes int32) {
	t.Helper()
	stream, err := conn.JetStream().Stream(t.Context(), schemas.BucketStream("functions"))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgSize = bytes
	if _, err := conn.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
