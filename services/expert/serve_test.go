package expert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// A host takes the rows of what the plan wants warm here, and sends their partial.
func TestServe(t *testing.T) {
	h := startHost(t, 0)
	partials := h.partials()
	h.plan(warm, []uint32{0, 2})
	h.awaitWarm(0, 2)
	h.await("ready", h.presence.Ready)
	h.rows(1, 0, 0, 2)
	p, id, key := partials.Take(t, 1)[0], rig.ID(0, 2), h.dispatch(1, 0, 0, 2).Key
	key.Aggregator = "" // it has brought the partial here
	if !proto.Equal(p.Key, key) || p.Tensor.Rows != 2 {
		t.Errorf("%v", p)
	}
	if f := p.Function; fmt.Sprintf("%016x", f.GetFunction()) != id || f.Rows != 2 || f.ComputeNs == 0 || f.TransferNs == 0 || f.StallNs != 0 {
		t.Errorf("function %s says of its time: %v", id, f)
	}
}

// partials of what comes from now on.
func (h *host) partials() *testdeployment.Received[*pb.Partial] {
	return testdeployment.Listen[*pb.Partial](h.t, h.d, bus.Receiver{
		Stream: h.d.Streams.Partial(), Name: "a", Subject: h.d.Subjects.Partial("a"), MaxInFlight: 200, Sole: true,
	})
}

// A function goes when every gate uses a plan of its layer without it.
func TestGatesLetGo(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	acknowledge := h.gate()
	acknowledge(h.plan(warm, []uint32{0}))
	h.awaitWarm(0)
	second := h.plan(warm, []uint32{1})
	h.awaitWarm(1)
	if h.fake.Phase(0) != device.Warm || h.state(0) == nil {
		t.Fatalf("experts %v", h.fake.Phases())
	}
	acknowledge(second)
	h.awaitGone(0)
	h.await("its expert is freed", func() bool { return h.fake.Phase(0) == device.Cold })
	if h.fake.Phase(1) != device.Warm {
		t.Errorf("experts %v", h.fake.Phases())
	}
}

// However many messages wait for a cold function, they share one load, and are
// computed in the order in which they came, once whatever the attempts.
func TestSharedColdStart(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 0, Config{KeepAlive: time.Hour})
	let := h.fake.Hold(t, 1)
	partials := h.partials()
	h.plan(cold, []uint32{1})
	h.awaitState(isCold, true, 1)
	const messages = 100
	for i := range uint64(messages) {
		h.rows(i+1, 0, 1)
		if i < 3 { // they are late
			h.rows(i+1, 1, 1)
		}
	}
	h.awaitState(isWarming, true, 1)
	h.await("the load", func() bool { return h.fake.Loads(1) == 1 })
	let()
	for i, p := range partials.Take(t, messages) {
		if p.Key.Step != uint64(i+1) {
			t.Fatalf("step %d after %d", p.Key.Step, i)
		}
	}
	if n, waited := h.functions.ColdStarts(); h.fake.Loads(1) != 1 || n != 1 || waited == 0 {
		t.Errorf("%d loads, %d cold starts, in which rows waited %v", h.fake.Loads(1), n, waited)
	}
}

// A host that offloads serves what it does not hold, when rows come for all functions at once.
func TestOffload(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 1, Config{Offload: "lru"})
	run(t, func(ctx context.Context) {
		for ctx.Err() == nil && h.fake.Within(t, 1) {
			time.Sleep(100 * time.Microsecond)
		}
	})
	partials := h.partials()
	h.plan(warm, []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3})
	for e := range uint32(4) {
		h.awaitWarm(e) // as gates see it
	}
	for step := range 5 {
		for e := range uint32(4) {
			h.rows(uint64(step+1), 0, e)
		}
		partials.Take(t, (step+1)*4)
	}
}

// Rows that come by name for a function that is planned elsewhere are computed, and so are those
// that come to its group from then on.
func TestBorrow(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 0, Config{KeepAlive: time.Hour})
	partials := h.partials()
	h.plan(warm, []uint32{0})
	h.awaitWarm(0)
	d := h.dispatch(1, 0, 1, 2, 3)
	d.Function = rig.ID(1, 2, 3)
	if err := h.d.Hop.Send(t.Context(), h.d.Subjects.Host(h.id), d); err != nil {
		t.Fatal(err)
	}
	partials.Take(t, 1)
	h.awaitWarm(1, 2, 3)
	h.rows(2, 0, 1, 2, 3)
	if last := partials.Take(t, 2)[1]; last.Key.Step != 2 {
		t.Errorf("%v", last)
	}
	if n := h.fake.Loads(1); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// The host's entry among the members has one size however many experts it has
// and has computed with.
func TestHeartbeatSize(t *testing.T) {
	h := startHost(t, 0)
	computed := func() float64 { return h.member().GetStats()[members.HostRows] }
	size := func(experts ...uint32) (int, []string) {
		h.plan(warm, experts)
		h.awaitWarm(experts...)
		want := computed() + float64(len(experts))
		h.rows(1, 0, experts...)
		h.await("rows computed", func() bool { return computed() == want })
		m := proto.CloneOf(h.member())
		m.Answer, m.Call = 0, 0 // numbers of any length
		return proto.Size(m), slices.Sorted(maps.Keys(m.Stats))
	}
	one, names := size(1)
	all, same := size(0, 1, 2, 3)
	if one != all || !slices.Equal(names, same) {
		t.Errorf("%d bytes with one expert, %d with four: %v, %v", one, all, names, same)
	}
}
