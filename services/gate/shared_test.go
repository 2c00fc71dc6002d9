package gate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
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

// What takes longer than leaving may is not forgotten: who leaves again waits for it, and so
// does who takes again, to whom rows come then.
func TestLeavesWhatTakesLong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again func(*shared) error
		taken bool
	}{
		{"leaves", func(s *shared) error { return s.leave(t.Context()) }, false},
		{"takes", func(s *shared) error { return s.take(t.Context()) }, true},
		{"throttles still", func(s *shared) error { s.look(t.Context(), true); return nil }, false},
		{"cools", func(s *shared) error { s.look(t.Context(), false); return nil }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := testdeployment.Open(t)
			begun, release := make(chan struct{}, 2), make(chan struct{})
			var handled atomic.Int64
			receive := func(context.Context, *bus.Msg) error {
				begun <- struct{}{}
				<-release
				handled.Add(1)
				return nil
			}
			s := &shared{log: d.Logger, receive: func(ctx context.Context) (*bus.Receiving, error) {
				return d.Hop.Receive(ctx, bus.Receiver{Stream: d.Streams.Hidden(), Name: "gate", Subject: d.Subjects.AnyHidden()}, receive)
			}}
			send := func() {
				t.Helper()
				if err := d.Hop.Send(t.Context(), d.Subjects.Hidden(0), &pb.Hidden{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			send()
			<-begun
			soon, cancel := context.WithCancel(t.Context())
			cancel()
			for i, act := range []func(context.Context) error{s.leave, s.leave, s.take} {
				if err := act(soon); !errors.Is(err, context.Canceled) {
					t.Errorf("attempt %d: %v", i, err)
				}
			}
			close(release)
			if err := tt.again(s); err != nil || handled.Load() != 1 {
				t.Errorf("ended with %v after %d rows", err, handled.Load())
			}
			if !s.done(!tt.taken) {
				t.Error("there is more to do")
			}
			if tt.taken {
				send()
				testkit.Eventually(t, "rows come again", func() bool { return handled.Load() == 2 })
			}
			if err := s.leave(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
