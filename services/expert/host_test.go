package expert

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// host follows plans on a fake device.
type host struct {
	*Service
	t    *testing.T
	fake *devicetest.Fake
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
	spec := d.Model.Spec
	h := &host{t: t, fake: devicetest.NewFake(spec.Layers, spec.Experts, device.Settings{Budget: int64(room) * devicetest.Bytes})}
	d.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	h.Service = newOn(h.fake, d, c)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if n := h.fake.Live() + h.fake.Memory().Used; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
	run(t, func(ctx context.Context) { _ = h.presence.Announce(ctx) })
	run(t, func(ctx context.Context) { _ = h.followPlan(ctx) })
	run(t, func(ctx context.Context) { h.states.Follow(ctx, h.announcer, func(functions.Change) {}) })
	run(t, func(ctx context.Context) { _ = h.announcer.Run(ctx) })
	run(t, h.retire)
	run(t, h.awaitServing)
	return h
}

// wanted is a function of layer 0 that is wanted here.
func (h *host) wanted(w pb.Want, experts ...uint32) *pb.Function {
	f := plan.Function(0, experts)
	f.Placements = []*pb.Placement{{Host: h.id, Want: w}}
	return f
}

// rows sends rows to a function's group, as the attempt of a step.
func (h *host) rows(step uint64, attempt uint32, experts ...uint32) {
	h.t.Helper()
	work := dispatch(h.d.Wire, h.d.Shape.Hidden, experts...)
	work.Key.Model, work.Key.Step, work.Key.Attempt = h.d.Identity.Model, step, attempt
	if err := h.d.Hop.Send(h.t.Context(), h.d.Subjects.Expert(0, plan.FunctionID(0, experts, plan.Routed)), work); err != nil {
		h.t.Fatal(err)
	}
}

// loads is how often an expert's load has begun.
func (h *host) loads(e int) (n int) {
	for _, id := range h.fake.Faults.Began() {
		if id.Expert == e {
			n++
		}
	}
	return n
}

// plan writes plans that have functions of layer 0 warm on this host, and all other
// experts elsewhere. It returns the version of layer 0's.
func (h *host) plan(here ...[]uint32) uint64 {
	h.t.Helper()
	var fs []*pb.Function
	for _, experts := range here {
		fs = append(fs, plan.Function(0, experts, h.id))
	}
	return h.planFunctions(fs...)
}

// planFunctions is plan with whatever functions.
func (h *host) planFunctions(fs ...*pb.Function) uint64 {
	h.t.Helper()
	rest := []uint32{0, 1, 2, 3}
	layers := []*pb.LayerPlan{{Layer: 0, Functions: fs}, {Layer: 1, Functions: []*pb.Function{plan.Function(1, slices.Clone(rest), "there")}}}
	for _, f := range fs {
		rest = slices.DeleteFunc(rest, func(e uint32) bool { return slices.Contains(f.Experts, e) })
	}
	if len(rest) > 0 {
		layers[0].Functions = append(layers[0].Functions, plan.Function(0, rest, "there"))
	}
	old, err := h.d.Plans.Read(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	now, _, err := h.d.Plans.Write(h.t.Context(), old, layers, planstore.Writer{Epoch: 1})
	if err != nil {
		h.t.Fatal(err)
	}
	return now[0].Plan.Version
}

// state is what the others see of a function of layer 0 here, nil for nothing.
func (h *host) state(experts ...uint32) *pb.FunctionState {
	id := plan.FunctionID(0, experts, plan.Routed)
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
	says, err := functions.NewAnnouncer(h.d.Functions)
	if err != nil {
		h.t.Fatal(err)
	}
	run(h.t, func(ctx context.Context) { _ = says.Run(ctx) })
	h.await("the gate", func() bool { return len(h.view.Snapshot()) == 2 })
	return func(version uint64) {
		if err := says.Set(functions.GateKey("gate-1"), &pb.GateLayers{Gate: "gate-1", Versions: map[uint32]uint64{0: version}}); err != nil {
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
			h.t.Fatalf("never: %s; experts %v; log:\n%s", what, h.phases(), h.log.String())
		}
	}
}

func (h *host) phases() (out []string) {
	for e := range 4 {
		out = append(out, h.phase(e).String())
	}
	return out
}

func (h *host) phase(e int) device.Phase { return h.fake.State(forward.ExpertID{Expert: e}).Phase }

// member is what the others see of the host.
func (h *host) member() *pb.Member {
	for _, m := range h.view.Snapshot() {
		if m.Id == h.id {
			return m
		}
	}
	return nil
}

func (h *host) awaitPhase(e int, want device.Phase) {
	h.t.Helper()
	h.await(fmt.Sprintf("expert %d %v", e, want), func() bool { return h.phase(e) == want })
}

// hold makes an expert's loads wait.
func (h *host) hold(e int) (let func()) {
	let = h.fake.Faults.Hold(forward.ExpertID{Expert: e})
	h.t.Cleanup(let)
	return let
}
