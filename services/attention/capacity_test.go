package attention

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// membersOf watches a bucket of a real server.
func membersOf(t *testing.T) (*bus.Bucket, *members.View) {
	t.Helper()
	kv, err := testserver.Connect(t).EnsureBucket(t.Context(), 1, "members", members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	v, err := members.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b, v
}

// What a replica cannot hold it gives back while a live replica of this model
// can hold it, also if that comes a little later; else it is an error.
func TestCheckCapacity(t *testing.T) {
	kv, err := kvcache.NewPool(oneHead, 2*oneHead.PageBytes())
	if err != nil {
		t.Fatal(err)
	}
	seq := newSequence(&pb.Sequence{RequestId: "r", PromptIds: make([]uint32, 3*32), MaxTokens: 1})
	large := &pb.Member{
		Id: "attention-2", Service: "attention", ModelHash: 7, Ready: true, Stats: map[string]float64{members.KVPages: 4},
	}
	for _, tc := range []struct {
		name   string
		change func(*pb.Member)
		after  time.Duration
		fits   bool
	}{
		{"there is one", func(*pb.Member) {}, 0, true},
		{"there will be one", func(*pb.Member) {}, 100 * time.Millisecond, true},
		{"of another model", func(m *pb.Member) { m.ModelHash = 8 }, 0, false},
		{"as small", func(m *pb.Member) { m.Stats = map[string]float64{members.KVPages: 3} }, 0, false},
		{"draining", func(m *pb.Member) { m.Draining = true }, 0, false},
		{"not ready", func(m *pb.Member) { m.Ready = false }, 0, false},
		{"no attention", func(m *pb.Member) { m.Service = "gate" }, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bucket, view := membersOf(t)
			s := &Service{d: &deployment.Deployment{Identity: wire.Identity{Model: 7}}, kv: kv, view: view, largerWithin: testkit.Patience}
			if !tc.fits {
				s.largerWithin = 300 * time.Millisecond
			}
			m, _ := proto.Clone(large).(*pb.Member)
			tc.change(m)
			ctx, stop := context.WithCancel(context.Background())
			var announcing sync.WaitGroup
			defer announcing.Wait()
			defer stop()
			announcing.Go(func() {
				time.Sleep(tc.after)
				_ = members.Announce(ctx, bucket, func() *pb.Member { return m }, members.Interval, nil)
			})
			err := s.checkCapacity(t.Context(), seq.seq, 1)
			var refused *refusedError
			switch {
			case tc.fits && !errors.Is(err, errElsewhere):
				t.Errorf("%v, want that it is given back", err)
			case !tc.fits && (!errors.As(err, &refused) || refused.code != "model_not_ready"):
				t.Errorf("%v, want a refusal", err)
			case !tc.fits && !strings.Contains(err.Error(), "needs 4 KV pages"):
				t.Errorf("%v does not say what it needs", err)
			}
		})
	}
}

// One that needs all pages is served under a stream of small ones without end,
// and those that wait leave at once when they are cancelled or late.
func TestLargeAmongSmall(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(4)
	b.add(b.request("small", 2, 2))
	large, gone, late := b.request("large", 4*32-2, 2), b.request("gone", 2*32, 1), b.request("late", 3*32, 1)
	late.deadline = b.clock
	for _, s := range []*sequence{large, gone, late} {
		b.add(s)
	}
	b.cancel(&pb.Cancel{RequestId: "gone", Reason: "cancelled"})
	b.later(time.Second)
	if b.line.Len() != 1 || book(gone).end().GetFinishReason() != "cancelled" || book(late).end().GetError().GetCode() != "deadline_exceeded" {
		t.Fatalf("%d wait; ended: %v, %v", b.line.Len(), book(gone).end(), book(late).end())
	}
	for i := 0; book(large).end() == nil; i++ {
		if i > 20 {
			t.Fatalf("%d small ones were served before the large one", i)
		}
		b.add(b.request(fmt.Sprint(i), 2, 2))
		b.step(5)
	}
}

// A sequence of layers with windows takes what these hold at a time, however long it
// gets.
func TestWindowsTakeLess(t *testing.T) {
	b := newBench(t, 1, 8)
	layer := kvcache.LayerShape{Heads: 1, KeyDim: 4, ValueDim: 4, Sight: model.Sight{Window: 16}}
	b.hasPagesOf(kvcache.Shape{Rows: 8, Layers: []kvcache.LayerShape{layer}}, 3)
	s := b.request("r", 2, 200)
	b.add(s)
	for i := 0; !s.ended; i++ {
		if b.step(5); i > 200 || b.kv.Used() > 2 {
			t.Fatalf("%d tokens in %d pages", s.generated(), b.kv.Used())
		}
	}
}

// Memory that holds less than a sequence may have is told with both numbers and the cure.
func TestShortOfRoom(t *testing.T) {
	mixtral := kvcache.Uniform(32, 8, 128) // of 32,768 positions
	for _, tc := range []struct {
		name    string
		bytes   int64
		longest int
		onGPU   bool
		want    string // empty: nothing is told
	}{
		{"64 MiB of Mixtral", 64 << 20, 32768, false, "[positions 256 context 32768 needed_bytes 8589934592 cure give --kv-memory 8192MiB, or --max-model-len 256]"},
		{"as much as it says", 8192 << 20, 32768, false, ""},
		{"a page less", 8191 << 20, 32768, false, "[positions 32736 context 32768 needed_bytes 8589934592 cure give --kv-memory 8192MiB, or --max-model-len 32736]"},
		{"a shorter context", 64 << 20, 256, false, ""},
		{"a GPU", 64 << 20, 257, true, "[positions 256 context 257 needed_bytes 75497472 cure give --gpu-memory more, or --max-model-len 256]"},
	} {
		kv, err := kvcache.NewPool(mixtral, tc.bytes)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if short := shortOfRoom(kv, tc.longest, tc.onGPU); short != nil {
			got = fmt.Sprint(short)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
