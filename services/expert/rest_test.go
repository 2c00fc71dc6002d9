package expert

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var hour = Config{KeepAlive: time.Hour}

// within fails when the device ever has more than its budget.
func (h *host) within(room int) {
	h.t.Helper()
	run(h.t, func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Microsecond) {
			if m := h.fake.Memory(); m.Used > int64(room)*devicetest.Bytes {
				h.t.Errorf("%+v", m)
				return
			}
		}
	})
}

// What a plan does not want any more rests until its time, and is warm at once if
// it is wanted before.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 0, hour)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	h.plan([]uint32{1})
	h.awaitState(isWarm, false, 0)
	h.awaitWarm(1)
	h.plan([]uint32{0})
	h.awaitWarm(0)
	h.awaitState(isWarm, false, 1)
	if began := h.fake.Faults.Began(); len(began) != 2 {
		t.Errorf("loads of %v began", began)
	}
	h.expire(time.Now().Add(time.Hour))
	h.awaitGone(1)
	h.awaitPhase(1, device.Cold)
	if h.phase(0) != device.Warm {
		t.Error("what is wanted has gone")
	}
}

// Who needs room gets that of what was retired first, and no more than it needs.
func TestPressure(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 3, hour)
	h.within(3)
	h.plan([]uint32{0}, []uint32{1})
	h.awaitWarm(0)
	h.awaitWarm(1)
	h.plan([]uint32{0})
	h.awaitState(isWarm, false, 1)
	h.plan([]uint32{2})
	h.awaitState(isWarm, false, 0)
	h.plan([]uint32{2}, []uint32{3})
	h.awaitWarm(3)
	h.awaitGone(1)
	if want := []string{"warm", "cold", "warm", "warm"}; !slices.Equal(h.phases(), want) || h.state(0) == nil {
		t.Errorf("experts %v", h.phases())
	}
}

// A function that is kept joins without a load when it is wanted warm.
func TestPreWarm(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	h.planFunctions(h.wanted(kept, 0, 1))
	h.awaitState(isWarm, false, 0, 1)
	h.planFunctions(h.wanted(warm, 0, 1))
	h.awaitWarm(0, 1)
	if began := h.fake.Faults.Began(); len(began) != 2 {
		t.Errorf("loads of %v began", began)
	}
}

// What is kept makes room for what takes rows, and comes back when there is some.
func TestKeptMakesRoom(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 1, Config{})
	h.within(1)
	h.planFunctions(h.wanted(kept, 0))
	h.awaitState(isWarm, false, 0)
	h.planFunctions(h.wanted(kept, 0), h.wanted(warm, 1))
	h.awaitWarm(1)
	h.awaitState(isRefused, false, 0)
	h.planFunctions(h.wanted(kept, 0))
	h.awaitState(isWarm, false, 0)
}

// A function that is scaled to zero stays warm until nobody has sent rows for its
// time, sleeps, and is loaded again for the next rows.
func TestSleep(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 0, hour)
	h.planFunctions(h.wanted(warm, 0))
	h.awaitWarm(0)
	h.planFunctions(h.wanted(cold, 0))
	h.await("wanted cold", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.functions[h.wanted(cold, 0).Id].want == cold
	})
	h.expire(time.Now())
	h.awaitWarm(0)
	h.expire(time.Now().Add(time.Hour))
	h.awaitState(isCold, true, 0)
	h.awaitPhase(0, device.Cold)
	h.rows(1, 0, 0)
	h.awaitWarm(0)
	if h.loads(0) != 2 {
		t.Errorf("%d loads", h.loads(0))
	}
}

// Two functions that sleep and share the room for one take turns.
func TestSleepersTakeTurns(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 1, hour)
	h.within(1)
	h.planFunctions(h.wanted(cold, 0), h.wanted(cold, 1))
	h.awaitState(isCold, true, 0)
	h.awaitState(isCold, true, 1)
	for step := range uint64(3) {
		for e := range uint32(2) {
			h.rows(step+1, 0, e)
			h.awaitWarm(e)
			h.awaitState(isCold, true, 1-e)
		}
	}
}

// However many messages wait for a cold function, they share one load, and are
// computed in the order in which they came, once whatever the attempts.
func TestSharedColdStart(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 0, hour)
	let := h.hold(1)
	partials := testdeployment.Listen[*pb.Partial](t, h.d, bus.Receiver{
		Stream: h.d.Streams.Partial(), Name: "a", Subject: h.d.Subjects.Partial("a"), MaxInFlight: 200, Private: true,
	})
	h.planFunctions(h.wanted(cold, 1))
	h.awaitState(isCold, true, 1)
	const messages = 100
	for i := range uint64(messages) {
		h.rows(i+1, 0, 1)
		if i < 3 { // they are late
			h.rows(i+1, 1, 1)
		}
	}
	h.awaitState(isWarming, true, 1)
	h.await("the load", func() bool { return h.loads(1) == 1 })
	let()
	for i, p := range partials.Take(t, messages) {
		if p.Key.Step != uint64(i+1) {
			t.Fatalf("step %d after %d", p.Key.Step, i)
		}
	}
	load := h.hostLoad()
	if h.loads(1) != 1 || load.ColdStarts != 1 || load.ColdStartNs == 0 || load.Warm != 1 || load.UsedBytes != devicetest.Bytes {
		t.Errorf("%d loads; %v", h.loads(1), load)
	}
}

// A load that rows wait for is before those of newer plans.
func TestRowsFirst(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	lets := []func(){h.hold(0), h.hold(1)}
	first := []*pb.Function{h.wanted(warm, 0), h.wanted(warm, 1), h.wanted(cold, 3)}
	h.planFunctions(first...)
	h.awaitState(isCold, true, 3)
	h.await("two loads", func() bool { return h.fake.Memory().Running == 2 })
	h.rows(1, 0, 3)
	h.await("a third", func() bool { return h.fake.Memory().Waiting == 1 })
	h.planFunctions(append(first, h.wanted(warm, 2))...)
	h.await("a fourth", func() bool { return h.fake.Memory().Waiting == 2 })
	for _, let := range lets {
		let()
	}
	h.awaitWarm(2)
	h.awaitWarm(3)
	if began := h.fake.Faults.Began(); began[2].Expert != 3 || began[3].Expert != 2 {
		t.Errorf("loads began in the order %v", began)
	}
}
