package gate

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A gate whose device throttles leaves rows to others that are ready and do not.
func TestLeaves(t *testing.T) {
	gate := func(id string, throttled float64) *pb.Member {
		return &pb.Member{Id: id, Service: "gate", Ready: true, Stats: map[string]float64{members.DeviceThrottled: throttled}}
	}
	other := func(change func(*pb.Member)) *pb.Member {
		m := gate("b", 0)
		change(m)
		return m
	}
	for _, tt := range []struct {
		name string
		all  []*pb.Member
		want bool
	}{
		{"cool", []*pb.Member{gate("a", 0), gate("b", 0)}, false},
		{"throttles beside a cool one", []*pb.Member{gate("a", 1), gate("b", 0)}, true},
		{"beside one without a GPU", []*pb.Member{gate("a", 1), other(func(m *pb.Member) { m.Stats = nil })}, true},
		{"both throttle", []*pb.Member{gate("a", 1), gate("b", 1)}, false},
		{"alone", []*pb.Member{gate("a", 1)}, false},
		{"its own word is not back", []*pb.Member{gate("b", 0)}, false},
		{"the other one is not ready", []*pb.Member{gate("a", 1), other(func(m *pb.Member) { m.Ready = false })}, false},
		{"the other one goes", []*pb.Member{gate("a", 1), other(func(m *pb.Member) { m.Draining = true })}, false},
		{"the other one is none", []*pb.Member{gate("a", 1), other(func(m *pb.Member) { m.Service = "expert" })}, false},
	} {
		if got := leaves(tt.all, "a"); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// While a gate leaves rows to others they have all that is for any gate, and it has what is for
// it by name; then it has both again.
func TestLeavesRowsToOthers(t *testing.T) {
	k := newTrack(t)
	k.planned()
	ctx := t.Context()
	send := func(subject string, n int) {
		t.Helper()
		for i := range n {
			if err := k.d.Hop.Send(ctx, subject, k.rows(uint64(i+1), 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.hidden.look(ctx, true)
	k.hidden.look(ctx, true) // again changes nothing
	var had atomic.Int64
	other, err := k.d.Hop.Receive(ctx, bus.Receiver{Stream: k.d.Streams.Hidden(), Name: "gate", Subject: k.d.Subjects.AnyHidden()}, func(context.Context, *bus.Msg) error {
		had.Add(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	send(k.d.Subjects.Hidden(0), 20)
	testkit.Eventually(t, "the other gate has all rows", func() bool { return had.Load() == 20 })
	if n := len(k.dispatches.All()); n > 0 {
		t.Errorf("this one has %d of them", n)
	}
	send(k.d.Subjects.Gate(k.id), 1)
	k.dispatches.Take(t, 1)
	if err := other.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	k.hidden.look(ctx, false)
	send(k.d.Subjects.Hidden(0), 3)
	k.dispatches.Take(t, 4)
}
