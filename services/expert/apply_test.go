package expert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestServe(t *testing.T) {
	h := startHost(t, 0)
	partials := make(chan *nats.Msg, 1)
	sub, err := h.d.Conn.NATS().ChanSubscribe(h.d.Subjects.Partial("a"), partials)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	h.plan([]uint32{0, 2})
	h.awaitWarm(0, 2)
	work := dispatch(h.d.Wire, h.d.Shape.Hidden, 0, 2)
	work.Key.Model = h.d.Identity.Model
	if err := h.d.Hop.Send(t.Context(), h.d.Subjects.Expert(0, plan.FunctionID(0, []uint32{0, 2}, plan.Routed)), work); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-partials:
		p := &pb.Partial{}
		work.Key.Shard = "" // it has brought the partial here
		if err := proto.Unmarshal(m.Data, p); err != nil || !proto.Equal(p.Key, work.Key) || p.Tensor.Rows != 2 {
			t.Errorf("%v, %v", p, err)
		}
		id := plan.FunctionID(0, []uint32{0, 2}, plan.Routed)
		if f := p.Function; fmt.Sprintf("%016x", f.GetFunction()) != id || f.Rows != 2 || f.ComputeNs == 0 || f.TransferNs == 0 || f.StallNs != 0 {
			t.Errorf("function %s says of its time: %v", id, f)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("no partial")
	}
}

// A function is served as soon as its experts are loaded, whatever others take.
func TestSlowFunction(t *testing.T) {
	h := startHost(t, 0)
	let := h.hold(1)
	h.plan([]uint32{0, 1}, []uint32{2}, []uint32{3})
	h.awaitWarm(2)
	h.awaitWarm(3)
	h.awaitState(isWarming, false, 0, 1)
	if h.presence.Ready() {
		t.Error("ready without expert 1")
	}
	let()
	h.awaitWarm(0, 1)
	h.await("ready", h.presence.Ready)
}

// A newer plan cancels the loads that it does not want and lets go on what it wants.
func TestOvertake(t *testing.T) {
	h := startHost(t, 0)
	defer h.hold(0)()
	let := h.hold(1)
	h.plan([]uint32{0}, []uint32{1})
	h.await("both loads", func() bool { return len(h.fake.Faults.Began()) == 2 })
	h.plan([]uint32{1, 2})
	h.awaitPhase(0, device.Cold)
	let()
	h.awaitWarm(1, 2)
	if began := h.fake.Faults.Began(); len(began) != 3 || h.state(0) != nil {
		t.Errorf("loads of %v began", began)
	}
}

// An expert that moves from one function to another is never loaded again, and
// the old function's end does not take it away.
func TestExpertStays(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	h.plan([]uint32{0, 1})
	h.awaitWarm(0, 1)
	h.plan([]uint32{1, 2})
	h.awaitWarm(1, 2)
	h.awaitPhase(0, device.Cold) // no gate uses the old function
	if h.phase(1) != device.Warm || len(h.fake.Faults.Began()) != 3 {
		t.Errorf("experts %v, loads of %v began", h.phases(), h.fake.Faults.Began())
	}
}

// A function goes when every gate uses a plan of its layer without it.
func TestDrop(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	acknowledge := h.gate()
	acknowledge(h.plan([]uint32{0}))
	h.awaitWarm(0)
	second := h.plan([]uint32{1})
	h.awaitWarm(1)
	h.dropRetired(h.view.Snapshot())
	if h.phase(0) != device.Warm || h.state(0) == nil {
		t.Fatalf("experts %v", h.phases())
	}
	acknowledge(second)
	h.awaitGone(0)
	h.awaitPhase(0, device.Cold)
	if h.phase(1) != device.Warm {
		t.Errorf("experts %v", h.phases())
	}
}

// A function that is wanted again before it was dropped is not dropped the next
// time that a plan goes on without it, while a gate uses it.
func TestWantedAgain(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	acknowledge := h.gate()
	acknowledge(h.plan([]uint32{0}))
	h.awaitWarm(0)
	h.mu.Lock()
	f := h.functions[plan.FunctionID(0, []uint32{0}, plan.Routed)]
	f.want, f.drop = nothing, true // its keeper is busy
	h.mu.Unlock()
	acknowledge(h.plan([]uint32{0}, []uint32{1}))
	h.awaitWarm(1)
	h.plan([]uint32{2})
	h.awaitWarm(2)
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.want != nothing || f.drop || f.receiving == nil {
		t.Errorf("wanted %v, to be dropped: %v, before the gate has another plan", f.want, f.drop)
	}
}

// A function that moves to another host stays until it is warm there.
func TestMove(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	h.planFunctions(plan.Function(0, []uint32{0}, "there"))
	h.await("retired", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.functions[plan.FunctionID(0, []uint32{0}, plan.Routed)].want == nothing
	})
	h.dropRetired(h.view.Snapshot())
	if h.state(0).GetPhase() != isWarm {
		t.Fatal("it went before anybody else was warm")
	}
	h.elsewhere(plan.FunctionID(0, []uint32{0}, plan.Routed))
	h.awaitGone(0)
}

// elsewhere has another host take a function's rows.
func (h *host) elsewhere(function string) {
	h.t.Helper()
	there := h.d.NewPresence("there", "expert")
	run(h.t, func(ctx context.Context) { _ = there.Announce(ctx) })
	says, err := functions.NewAnnouncer(h.d.Functions)
	if err != nil {
		h.t.Fatal(err)
	}
	run(h.t, func(ctx context.Context) { _ = says.Run(ctx) })
	f := &pb.FunctionState{Id: function, Phase: isWarm, Joined: true}
	if err := says.Set(functions.HostKey(0, "there"), &pb.HostLayer{Host: "there", Functions: []*pb.FunctionState{f}}); err != nil {
		h.t.Fatal(err)
	}
}

// What a plan wants kept is loaded and takes no rows; what it wants cold takes
// rows, which load it.
func TestKeptAndCold(t *testing.T) {
	h := startHostWith(t, 0, Config{KeepAlive: time.Hour})
	h.planFunctions(h.wanted(kept, 0), h.wanted(cold, 1))
	h.awaitState(isWarm, false, 0)
	h.awaitState(isCold, true, 1)
	h.awaitPhase(1, device.Cold)
	h.rows(1, 0, 1)
	h.awaitWarm(1)
	h.planFunctions(h.wanted(warm, 0), h.wanted(kept, 1))
	h.awaitWarm(0)
	h.awaitState(isWarm, false, 1)
}

// A function that is only to be kept here takes rows until another host does.
func TestKeptServesOn(t *testing.T) {
	h := startHost(t, 0)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	moved := h.wanted(kept, 0)
	moved.Placements = append(moved.Placements, &pb.Placement{Host: "there", Want: warm})
	h.planFunctions(moved)
	h.await("kept", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.functions[moved.Id].want == kept
	})
	h.dropRetired(h.view.Snapshot())
	if f := h.state(0); f.GetPhase() != isWarm || !f.Joined {
		t.Fatalf("%v before anybody else takes its rows", f)
	}
	h.elsewhere(moved.Id)
	h.awaitState(isWarm, false, 0)
}

// Rows that wait for a function whose experts do not fit go back when it is dropped.
func TestDroppedWhileAwaited(t *testing.T) {
	h := startHost(t, 1)
	asleep := plan.Function(0, []uint32{1})
	asleep.Placements = []*pb.Placement{{Host: h.id, Want: cold}}
	h.planFunctions(plan.Function(0, []uint32{0}, h.id), asleep)
	h.awaitWarm(0)
	h.awaitState(isCold, true, 1)
	h.mu.Lock()
	f := h.functions[asleep.Id]
	h.mu.Unlock()
	ended := make(chan error, 1)
	run(t, func(ctx context.Context) {
		_, err := h.rouse(ctx, f, &pb.Dispatch{}, time.Now())
		ended <- err
	})
	h.awaitState(isRefused, true, 1)
	h.plan([]uint32{0})
	h.awaitGone(1)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "dropped") {
			t.Errorf("%v, want that it was dropped", err)
		}
	case <-time.After(testkit.Patience):
		t.Error("the rows wait on")
	}
}

// What fits only without the functions that the plan does not want takes their
// place, though a gate uses them still: else neither would ever go on.
func TestMakeRoom(t *testing.T) {
	h := startHost(t, 3)
	acknowledge := h.gate()
	acknowledge(h.plan([]uint32{0, 1}, []uint32{2}))
	h.awaitWarm(0, 1)
	h.awaitWarm(2)
	h.plan([]uint32{0, 3}, []uint32{2})
	h.awaitWarm(0, 3)
	if want := []string{"warm", "cold", "warm", "warm"}; !slices.Equal(h.phases(), want) {
		t.Errorf("experts %v", h.phases())
	}
}

// What does not fit at all is told with both numbers and logged once; what fits is
// served, and what was refused as soon as there is room.
func TestRefuse(t *testing.T) {
	h := startHost(t, 2)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	h.plan([]uint32{0}, []uint32{1, 2})
	h.awaitState(isRefused, false, 1, 2)
	if f := h.state(1, 2); f.NeedBytes != 2*devicetest.Bytes || f.RoomBytes != devicetest.Bytes || f.Reason == "" {
		t.Errorf("%v", f)
	}
	h.awaitWarm(0)
	if n := strings.Count(h.log.String(), "need_bytes=200 room_bytes=100"); n != 1 {
		t.Errorf("told %d times:\n%s", n, h.log.String())
	}
	h.plan([]uint32{1, 2})
	h.awaitWarm(1, 2)
}

// A device with less memory than its budget says what it can hold.
func TestOutOfMemory(t *testing.T) {
	h := startHost(t, 0)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	h.fake.Faults.Fail(forward.ExpertID{Expert: 1}, device.ErrOutOfMemory)
	h.plan([]uint32{0}, []uint32{1})
	h.awaitState(isRefused, false, 1)
	h.await("its budget", func() bool {
		all := h.view.Snapshot()
		return len(all) == 1 && all[0].MemoryBudgetBytes == devicetest.Bytes
	})
}

// A load that fails is tried again; it is no refusal.
func TestFailedLoad(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	broken := forward.ExpertID{Expert: 1}
	h.fake.Faults.Fail(broken, fmt.Errorf("a broken disk"))
	h.plan([]uint32{0}, []uint32{1})
	h.await("two tries", func() bool {
		return 2 <= len(slices.DeleteFunc(h.fake.Faults.Began(), func(id forward.ExpertID) bool { return id != broken }))
	})
	h.awaitState(isWarming, false, 1)
	if strings.Count(h.log.String(), "a broken disk") != 1 {
		t.Errorf("%v:\n%s", h.state(1), h.log.String())
	}
	h.awaitWarm(0)
	h.fake.Faults.Fail(broken, nil)
	h.awaitWarm(1)
}

func TestBudgetBelowOneExpert(t *testing.T) {
	d := testdeployment.Open(t)
	one := newHost(t, d).expertBytes
	for budget, says := range map[uint64]string{0: "", one: "", one - 1: fmt.Sprintf("is %d bytes; an expert of model tiny has %d", one-1, one)} {
		err := Config{MemoryBudget: budget}.Check(d.Model)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v, want %q", budget, err, says)
		}
	}
}
