package expert

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// Words of the schemas.
const (
	warm      = pb.Want_WANT_WARM
	cold      = pb.Want_WANT_COLD
	isCold    = pb.FunctionPhase_FUNCTION_PHASE_COLD
	isWarming = pb.FunctionPhase_FUNCTION_PHASE_WARMING
	isWarm    = pb.FunctionPhase_FUNCTION_PHASE_WARM
)

// host follows plans on a fake device.
type host struct {
	*Service
	t    *testing.T
	fake rig.Device
	log  lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startHost starts one with room for so many experts; 0 is no limit.
func startHost(t *testing.T, room int) *host { t.Helper(); return startHostWith(t, room, Config{}) }

func startHostWith(t *testing.T, room int, c Config) *host {
	t.Helper()
	d := testdeployment.Open(t)
	h := &host{t: t, fake: rig.NewDevice(room)}
	d.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	o, err := c.offload(d.Model.Spec)
	if err != nil {
		t.Fatal(err)
	}
	h.Service = newOn(h.fake, d, c, o, nil)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		h.fake.Left(t)
	})
	run(t, func(ctx context.Context) { _ = h.presence.Announce(ctx) })
	run(t, h.followPlan)
	run(t, func(ctx context.Context) { h.states.Follow(ctx, h.announcer, func(planstore.FunctionChange) {}) })
	run(t, func(ctx context.Context) { _ = h.announcer.Run(ctx) })
	run(t, func(ctx context.Context) { h.functions.Run(ctx, h.view) })
	run(t, h.awaitServing)
	return h
}

// dispatch is of rows of a function, as the attempt of a step.
func (h *host) dispatch(step uint64, attempt uint32, experts ...uint32) *pb.Dispatch {
	d := rig.Dispatch(h.d.Wire, h.d.Shape.Hidden, experts...)
	d.Key.Model, d.Key.Step, d.Key.Attempt = h.d.Identity.Model, step, attempt
	return d
}

// rows sends rows to a function's group.
func (h *host) rows(step uint64, attempt uint32, experts ...uint32) {
	h.t.Helper()
	if err := h.d.Hop.Send(h.t.Context(), h.d.Subjects.Expert(0, rig.ID(experts...)), h.dispatch(step, attempt, experts...)); err != nil {
		h.t.Fatal(err)
	}
}

// plan writes plans that want functions of layer 0 in some way here, and have all other
// experts elsewhere. It returns the version of layer 0's.
func (h *host) plan(w pb.Want, here ...[]uint32) uint64 {
	h.t.Helper()
	var fs []*pb.Function
	for _, experts := range here {
		fs = append(fs, rig.Wanted(h.id, w, experts...))
	}
	old, err := h.d.Plans.Read(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	now, _, err := h.d.Plans.Write(h.t.Context(), old, rig.Plans(fs...), planstore.Writer{Epoch: 1})
	if err != nil {
		h.t.Fatal(err)
	}
	return now[0].Plan.Version
}

// state is what the others see of a function of layer 0 here, nil for nothing.
func (h *host) state(experts ...uint32) *pb.FunctionState {
	id := rig.ID(experts...)
	for _, f := range h.states.Host(0, h.id).GetFunctions() {
		if f.Id == id {
			return f
		}
	}
	return nil
}

func (h *host) awaitState(want pb.FunctionPhase, joined bool, experts ...uint32) {
	h.t.Helper()
	h.await(fmt.Sprintf("function %v %v, joined %v", experts, want, joined), func() bool {
		f := h.state(experts...)
		return f.GetPhase() == want && f.GetJoined() == joined
	})
}

func (h *host) awaitWarm(experts ...uint32) { h.t.Helper(); h.awaitState(isWarm, true, experts...) }

func (h *host) awaitGone(experts ...uint32) {
	h.t.Helper()
	h.await(fmt.Sprintf("function %v gone", experts), func() bool { return h.state(experts...) == nil })
}

// gate is a gate that acknowledges plans of layer 0.
func (h *host) gate() (acknowledge func(version uint64)) {
	h.t.Helper()
	gate := h.d.NewPresence("gate-1", "gate")
	run(h.t, func(ctx context.Context) { _ = gate.Announce(ctx) })
	says, err := planstore.NewAnnouncer(h.d.Functions)
	if err != nil {
		h.t.Fatal(err)
	}
	run(h.t, func(ctx context.Context) { _ = says.Run(ctx) })
	h.await("the gate", func() bool { return len(h.view.Snapshot()) == 2 })
	return func(version uint64) {
		if err := says.Set(planstore.GateKey("gate-1"), &pb.GateLayers{Gate: "gate-1", Versions: map[uint32]uint64{0: version}}); err != nil {
			h.t.Fatal(err)
		}
		h.await("the acknowledgement", func() bool { return h.states.Acknowledged("gate-1", 0) == version })
	}
}

// await polls until ok.
func (h *host) await(what string, ok func() bool) {
	h.t.Helper()
	for limit := time.Now().Add(testkit.Patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			h.t.Fatalf("never: %s; experts %v; log:\n%s", what, h.fake.Phases(), h.log.String())
		}
	}
}

// member is what the others see of the host.
func (h *host) member() *pb.Member {
	for _, m := range h.view.Snapshot() {
		if m.Id == h.id {
			return m
		}
	}
	return nil
}
