package queue

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a replica cannot hold it gives back while a live replica of this model
// can hold it, also if that comes a little later; else it is an error.
func TestCheckCapacity(t *testing.T) {
	oneHead := kvcache.Shape{Layers: []kvcache.LayerShape{{Heads: 1, KeyDim: 4, ValueDim: 4}}}
	kv, err := kvcache.NewPool(oneHead, 2*oneHead.PageBytes())
	if err != nil {
		t.Fatal(err)
	}
	seq := &pb.Sequence{RequestId: "r", PromptIds: make([]uint32, 3*32), MaxTokens: 1}
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
		synctest.Test(t, func(t *testing.T) {
			m, _ := proto.Clone(large).(*pb.Member)
			tc.change(m)
			all := newMembers()
			c := &capacity{model: 7, pages: kv, members: all, within: largerWithin}
			time.AfterFunc(tc.after, func() { all.come(m) })
			began := time.Now()
			err := c.check(t.Context(), seq, 1)
			took, want := time.Since(began), tc.after
			if !tc.fits {
				want = largerWithin
			}
			var refused *refusedError
			switch {
			case took != want:
				t.Errorf("%s: it waited %v, want %v", tc.name, took, want)
			case tc.fits && !errors.Is(err, errElsewhere):
				t.Errorf("%s: %v, want that it is given back", tc.name, err)
			case !tc.fits && (!errors.As(err, &refused) || refused.code != "model_not_ready"):
				t.Errorf("%s: %v, want a refusal", tc.name, err)
			case !tc.fits && !strings.Contains(err.Error(), "needs 4 KV pages"):
				t.Errorf("%s: %v does not say what it needs", tc.name, err)
			}
		})
	}
}
