package layer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// host is what host h says of a function of layer 3.
func host(phase pb.FunctionPhase, joined bool) *pb.HostLayer {
	return &pb.HostLayer{Host: "h", Layer: 3, Functions: []*pb.FunctionState{{Id: "0000000000000001", Phase: phase, Joined: joined}}}
}

// Rows that wait for a cold function are not sent again before a layer can be late
// in earnest, however long the load takes, and what is lost meanwhile is.
func TestColdStartIsNoLoss(t *testing.T) {
	const warming = pb.FunctionPhase_FUNCTION_PHASE_WARMING
	for _, tc := range []struct {
		name     string
		says     *pb.HostLayer
		takes    time.Duration
		reissues int
	}{
		{"5 s", host(warming, true), 5 * time.Second, 0},
		{"35 s", host(warming, true), 35 * time.Second, 3},
		{"95 s", host(warming, true), 95 * time.Second, 9},
		{"a function that takes no rows yet", host(warming, false), 5 * time.Second, 6},
		{"nobody wakes", nil, 5 * time.Second, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, r := newFakeLayer(t, 8)
				began := time.Now()
				y.x.waking.says("3.h", tc.says, began)
				y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
					if h.Key.Attempt == 0 {
						time.AfterFunc(tc.takes, func() { _ = y.deliver(twice(h)) })
					}
					return nil, nil, true
				}
				checkLayer(t, r, 2)
				if took, n := time.Since(began), y.count()-1; took != tc.takes || n != tc.reissues {
					t.Errorf("%v, %d re-issues; want %v and %d", took, n, tc.takes, tc.reissues)
				}
			})
		})
	}
}

// A layer wakes from when a host says so until it says otherwise, goes, or takes too long.
func TestWaking(t *testing.T) {
	const warming, warm = pb.FunctionPhase_FUNCTION_PHASE_WARMING, pb.FunctionPhase_FUNCTION_PHASE_WARM
	w, now := &waking{}, time.Now()
	rules := planstore.FunctionSettings{MoELayers: []int{3}, Experts: 2}
	for i, step := range []struct {
		r    *pb.HostLayer // nil: its key is deleted
		want bool
	}{
		{host(warm, true), false}, {host(warming, true), true}, {host(warming, true), true}, {host(warm, true), false},
		{host(warming, true), true}, {nil, false},
	} {
		body, err := proto.Marshal(step.r)
		if err != nil {
			t.Fatal(err)
		}
		w.hear(rules, "3.h", body, step.r == nil)
		if got := w.in(3, now); got != step.want || w.in(1, now) {
			t.Errorf("step %d: %v", i, got)
		}
	}
	w.hear(rules, planstore.GateKey("g"), []byte("x"), false)
	w.hear(rules, "3.other", []byte("x"), false)
	for i := range 3 {
		w.says(fmt.Sprintf("3.%d", i), host(warming, true), now)
	}
	if !w.in(3, now.Add(longestWake-1)) || w.in(3, now.Add(longestWake)) || len(w.hosts) != 3 {
		t.Errorf("%v", w.hosts)
	}
}
