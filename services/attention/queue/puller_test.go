package queue

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
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
			all := newMembers()
			if tc.sibling != nil {
				all = newMembers(&pb.Member{Id: "attention-2", Service: "attention", Ready: true, Stats: tc.sibling})
			}
			p := &puller{places: places{slots: newSlots(slots), waiting: newWaiting(), line: &engine.Line{}, members: all, replica: "attention-1"}}
			p.throttles = func() bool { return tc.throttles }
			for range tc.taken {
				p.slots.take()
			}
			if n := p.pullable(); n != tc.want {
				t.Errorf("it pulls %d, want %d", n, tc.want)
			}
		})
	}
}
