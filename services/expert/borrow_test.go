package expert

import (
	"errors"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// borrower is a host, and what it sends to those around it.
type borrower struct {
	*host
	partials *testdeployment.Received[*pb.Partial]
	declined *testdeployment.Received[*pb.Block]
}

// startBorrower has expert 0 of layer 0, with room for so many.
func startBorrower(t *testing.T, room int) *borrower {
	t.Helper()
	h := startHostWith(t, room, hour)
	b := &borrower{
		host: h,
		partials: testdeployment.Listen[*pb.Partial](t, h.d, bus.Receiver{
			Stream: h.d.Streams.Partial(), Name: "a", Subject: h.d.Subjects.Partial("a"), Private: true,
		}),
		declined: testdeployment.Listen[*pb.Block](t, h.d, bus.Receiver{
			Stream: h.d.Streams.Block(), Name: "attention-1", Subject: h.d.Subjects.Block("attention-1"), Private: true,
		}),
	}
	h.plan([]uint32{0})
	h.awaitWarm(0)
	return b
}

// byName sends rows of the function that the plan has elsewhere to this host.
func (b *borrower) byName(step uint64, function ...uint32) {
	b.t.Helper()
	d := dispatch(b.d.Wire, b.d.Shape.Hidden, function[0])
	d.Key.Model, d.Key.Step, d.Key.Attempt, d.Key.Microbatch = b.d.Identity.Model, step, 2, uint32(step)
	d.Function = plan.FunctionID(0, function, plan.Routed)
	if err := b.d.Hop.Send(b.t.Context(), b.d.Subjects.Host(b.id), d); err != nil {
		b.t.Fatal(err)
	}
}

func (b *borrower) awaitDeclined(n int) *pb.Block {
	b.t.Helper()
	last := b.declined.Take(b.t, n)[n-1]
	if last.Error.GetCode() != wire.Elsewhere || last.Error.Message == "" {
		b.t.Fatalf("told %v", last)
	}
	return last
}

// Rows that come by name for a function that is planned elsewhere are computed when
// it is loaded. It takes rows of its group then, and goes when nobody needs it.
func TestBorrow(t *testing.T) {
	t.Parallel()
	b := startBorrower(t, 0)
	let := b.hold(1)
	b.byName(1, 1, 2, 3)
	b.awaitState(isWarming, false, 1, 2, 3)
	b.byName(2, 1, 2, 3)
	let()
	for i, p := range b.partials.Take(t, 2) {
		if p.Key.Attempt != 2 || p.Key.Step > 2 {
			t.Errorf("partial %d is %v", i, p.Key)
		}
	}
	b.awaitWarm(1, 2, 3)
	b.rows(3, 0, 1, 2, 3)
	b.partials.Take(t, 3)
	if n := b.loads(1); n != 1 {
		t.Errorf("%d loads", n)
	}
	b.expire(time.Now().Add(2 * time.Hour))
	b.awaitGone(1, 2, 3)
	b.awaitPhase(1, device.Cold)
	if told := b.declined.All(); len(told) > 0 {
		t.Errorf("told %v", told)
	}
}

// A newer plan takes a borrowed function over, or ends it.
func TestBorrowedIsPlanned(t *testing.T) {
	t.Parallel()
	b := startBorrower(t, 0)
	b.byName(1, 1, 2, 3)
	b.awaitWarm(1, 2, 3)
	b.plan([]uint32{0}, []uint32{1, 2, 3})
	b.await("it is planned here", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		f := b.functions[plan.FunctionID(0, []uint32{1, 2, 3}, plan.Routed)]
		return f.want == warm && !f.borrowed
	})
	if n := b.loads(1); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// What a host cannot have is declined at once, and disturbs nothing.
func TestDecline(t *testing.T) {
	t.Parallel()
	b := startBorrower(t, 2)
	for n, function := range [][]uint32{{1, 2, 3}, {1}} { // without room, and unknown
		b.byName(uint64(n), function...)
		if k := b.awaitDeclined(n + 1).Key; k.Step != uint64(n) || k.Attempt != 2 {
			t.Errorf("%v", k)
		}
	}
	b.byName(3, 0)
	if got := b.partials.Take(t, 1)[0].Key.Step; got != 3 {
		t.Errorf("step %d", got)
	}
	b.leaveNothing()
	b.byName(4, 1, 2, 3)
	b.awaitDeclined(3)
	if b.state(1, 2, 3) != nil {
		t.Error("it is there")
	}
}

// A load that fails ends the wait of those who wait for it.
func TestBorrowFails(t *testing.T) {
	t.Parallel()
	b := startBorrower(t, 0)
	b.fake.Faults.Fail(forward.ExpertID{Expert: 3}, errors.New("a broken disk"))
	b.byName(1, 1, 2, 3)
	b.awaitDeclined(1)
	b.awaitGone(1, 2, 3)
	b.byName(2, 1, 2, 3)
	b.awaitDeclined(2)
}

// A load whose rows all went before it was done is forgotten, however many come after it.
func TestUnusedColdStart(t *testing.T) {
	f := &function{start: &coldStart{warm: true, computed: map[share]uint32{}}}
	for step := range uint64(maxComputed + 1) {
		if f.stale(&pb.Dispatch{Key: &pb.Key{Step: step}}, time.Now()) {
			t.Fatalf("step %d is stale", step)
		}
	}
	if f.start != nil {
		t.Errorf("%d of its rows are remembered", len(f.start.computed))
	}
}
