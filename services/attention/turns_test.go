package attention

import (
	"context"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A replica pulls what it can begin, and more to wait only while no sibling can begin it.
// One whose device throttles pulls nothing that a sibling can begin whose device does not.
func TestPullable(t *testing.T) {
	const slots = 3
	sibling := func(places, throttled float64) map[string]float64 {
		return map[string]float64{members.Places: places, members.DeviceThrottled: throttled}
	}
	for _, tc := range []struct {
		name      string
		sibling   map[string]float64 // nil: there is none
		throttles bool
		taken     int
		want      int
	}{
		{"alone", nil, false, 1, 2},
		{"alone and full", nil, false, slots, pullAtOnce},
		{"beside a free one", sibling(5, 0), false, 1, 2},
		{"full beside a free one", sibling(5, 0), false, slots, 0},
		{"full beside a full one", sibling(0, 0), false, slots, pullAtOnce},
		{"full beside one that throttles", sibling(5, 1), false, slots, pullAtOnce},
		{"throttles alone", nil, true, 1, 2},
		{"throttles beside a free one", sibling(5, 0), true, 1, 0},
		{"throttles beside a full one", sibling(0, 0), true, 1, 2},
		{"both throttle", sibling(5, 1), true, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bucket, view := membersOf(t)
			s := &Service{id: "attention-1", view: view, waiting: newWaiting(), slots: newSlots(slots), engine: &engine{scheduler: &scheduler{}}}
			s.throttles = func() bool { return tc.throttles }
			for range tc.taken {
				s.slots.take()
			}
			if tc.sibling != nil {
				ctx, stop := context.WithCancel(t.Context())
				var announcing sync.WaitGroup
				defer announcing.Wait()
				defer stop()
				m := &pb.Member{Id: "attention-2", Service: "attention", Ready: true, Stats: tc.sibling}
				announcing.Go(func() { _ = members.Announce(ctx, bucket, func() *pb.Member { return m }, members.Interval, nil) })
				testkit.Eventually(t, "the sibling", func() bool { return len(view.Snapshot()) == 1 })
			}
			if n := s.pullable(); n != tc.want {
				t.Errorf("it pulls %d, want %d", n, tc.want)
			}
		})
	}
}
