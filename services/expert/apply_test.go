package expert

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
func startHost(t *testing.T, room int) *host {
	t.Helper()
	d := testdeployment.Open(t)
	spec := d.Model.Spec
	h := &host{t: t, fake: devicetest.NewFake(spec.Layers, spec.Experts, device.Settings{Budget: int64(room) * devicetest.Bytes})}
	d.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	h.Service = newOn(h.fake, d, Config{})
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
	run(t, h.followPlan)
	run(t, h.retire)
	return h
}

// plan writes a plan that has functions of layer 0 on this host, and all other
// experts elsewhere. It returns the plan's version.
func (h *host) plan(here ...[]uint32) uint64 {
	h.t.Helper()
	rest := []uint32{0, 1, 2, 3}
	layers := []*pb.LayerPlan{{Layer: 0}, {Layer: 1, Functions: []*pb.Function{there(1, rest)}}}
	for _, experts := range here {
		f := &pb.Function{Id: plan.FunctionID(0, experts), Experts: experts, Hosts: []string{h.id}}
		layers[0].Functions = append(layers[0].Functions, f)
		rest = slices.DeleteFunc(rest, func(e uint32) bool { return slices.Contains(experts, e) })
	}
	if len(rest) > 0 {
		layers[0].Functions = append(layers[0].Functions, there(0, rest))
	}
	old, err := h.d.Plans.Read(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	head := &pb.PlanHead{Reason: "test"}
	if err := h.d.Plans.Write(h.t.Context(), head, layers, old); err != nil {
		h.t.Fatal(err)
	}
	return head.Version
}

func there(layer int, experts []uint32) *pb.Function {
	return &pb.Function{Id: plan.FunctionID(layer, experts), Experts: slices.Clone(experts), Hosts: []string{"there"}}
}

// await polls until ok.
func (h *host) await(what string, ok func() bool) {
	h.t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
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

func (h *host) awaitApplied(version uint64) {
	h.t.Helper()
	h.await(fmt.Sprintf("plan %d applied", version), func() bool { return h.member().GetPlanVersion() == version })
}

func (h *host) awaitServing(experts ...uint32) {
	h.t.Helper()
	h.await(fmt.Sprintf("experts %v served", experts), func() bool { return h.function(plan.FunctionID(0, experts)) != nil })
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

func TestServe(t *testing.T) {
	h := startHost(t, 0)
	partials := make(chan *nats.Msg, 1)
	sub, err := h.d.Conn.NATS().ChanSubscribe(h.d.Subjects.Partial("a"), partials)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	h.awaitApplied(h.plan([]uint32{0, 2}))
	work := dispatch(h.d.Wire, h.d.Shape.Hidden, 0, 2)
	work.Key.Model = h.d.Identity.Model
	if err := h.d.Hop.Send(t.Context(), h.d.Subjects.Expert(0, plan.FunctionID(0, []uint32{0, 2})), work); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-partials:
		p := &pb.Partial{}
		work.Key.Shard = "" // it has brought the partial here
		if err := proto.Unmarshal(m.Data, p); err != nil || !proto.Equal(p.Key, work.Key) || p.Tensor.Rows != 2 {
			t.Errorf("%v, %v", p, err)
		}
		id := plan.FunctionID(0, []uint32{0, 2})
		if f := p.Function; fmt.Sprintf("%016x", f.GetFunction()) != id || f.Rows != 2 || f.ComputeNs == 0 || f.TransferNs == 0 || f.StallNs != 0 {
			t.Errorf("function %s says of its time: %v", id, f)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no partial")
	}
}

// A function is served as soon as its experts are loaded; the plan is applied
// when all are.
func TestSlowFunction(t *testing.T) {
	h := startHost(t, 0)
	let := h.hold(1)
	version := h.plan([]uint32{0, 1}, []uint32{2}, []uint32{3})
	h.awaitServing(2)
	h.awaitServing(3)
	if h.function(plan.FunctionID(0, []uint32{0, 1})) != nil || h.member().GetPlanVersion() != 0 {
		t.Error("the plan is applied without expert 1")
	}
	let()
	h.awaitApplied(version)
	h.awaitServing(0, 1)
}

// A newer plan cancels the loads that it does not want and lets go on what it wants.
func TestOvertake(t *testing.T) {
	h := startHost(t, 0)
	defer h.hold(0)()
	let := h.hold(1)
	first := h.plan([]uint32{0}, []uint32{1})
	h.await("both loads", func() bool { return len(h.fake.Faults.Began()) == 2 })
	second := h.plan([]uint32{1, 2})
	h.awaitPhase(0, device.Cold)
	let()
	h.awaitApplied(second)
	if began := h.fake.Faults.Began(); len(began) != 3 || h.member().GetPlanVersion() == first {
		t.Errorf("loads of %v began", began)
	}
}

// An expert that moves from one function to another is never loaded again, and
// the old function's end does not take it away.
func TestExpertStays(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	h.awaitApplied(h.plan([]uint32{0, 1}))
	h.awaitApplied(h.plan([]uint32{1, 2}))
	h.awaitPhase(0, device.Cold) // no gate uses the old function
	if h.phase(1) != device.Warm || len(h.fake.Faults.Began()) != 3 {
		t.Errorf("experts %v, loads of %v began", h.phases(), h.fake.Faults.Began())
	}
}

// A function goes when every gate uses a plan without it.
func TestDrop(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	gate := h.d.NewPresence("gate-1", "gate")
	first := h.plan([]uint32{0})
	gate.SetPlan(first)
	run(t, func(ctx context.Context) { _ = gate.Announce(ctx) })
	h.await("the gate", func() bool { return len(h.view.Snapshot()) == 2 })
	h.awaitApplied(first)
	second := h.plan([]uint32{1})
	h.awaitApplied(second)
	if got := h.retirable(); len(got) > 0 || h.phase(0) != device.Warm {
		t.Fatalf("%d functions may go, experts %v", len(got), h.phases())
	}
	gate.SetPlan(second)
	h.awaitPhase(0, device.Cold)
	if h.phase(1) != device.Warm {
		t.Errorf("experts %v", h.phases())
	}
}

// What fits only without the functions that the plan does not want takes their
// place, though a gate uses them still: else neither would ever go on.
func TestMakeRoom(t *testing.T) {
	h := startHost(t, 3)
	gate := h.d.NewPresence("gate-1", "gate")
	first := h.plan([]uint32{0, 1}, []uint32{2})
	gate.SetPlan(first)
	run(t, func(ctx context.Context) { _ = gate.Announce(ctx) })
	h.awaitApplied(first)
	h.awaitApplied(h.plan([]uint32{0, 3}, []uint32{2}))
	if want := []string{"warm", "cold", "warm", "warm"}; !slices.Equal(h.phases(), want) {
		t.Errorf("experts %v", h.phases())
	}
	if h.member().Refused != nil {
		t.Errorf("refused %v", h.member().Refused)
	}
}

// What does not fit at all is told with both numbers and logged once, and what
// was served before is served on.
func TestRefuse(t *testing.T) {
	h := startHost(t, 2)
	first := h.plan([]uint32{0})
	h.awaitApplied(first)
	version := h.plan([]uint32{1, 2}, []uint32{3})
	h.await("the refusal", func() bool { return h.member().GetRefused() != nil })
	want := &pb.Refusal{PlanVersion: version, Experts: 3, NeedBytes: 3 * devicetest.Bytes, RoomBytes: 2 * devicetest.Bytes}
	if got := h.member(); !proto.Equal(got.Refused, want) || got.PlanVersion != first {
		t.Errorf("%v applied and refused %v, want %v", got.PlanVersion, got.Refused, want)
	}
	h.awaitServing(0)
	h.await("another try", func() bool { return strings.Contains(h.log.String(), "trying again") })
	if n := strings.Count(h.log.String(), "need_bytes=300 room_bytes=200"); n != 1 {
		t.Errorf("told %d times:\n%s", n, h.log.String())
	}
	last := h.plan([]uint32{3})
	h.awaitApplied(last)
	if !proto.Equal(h.member().Refused, want) { // the planner must not forget
		t.Errorf("refused %v", h.member().Refused)
	}
}

// A device with less memory than its budget is a refusal, too.
func TestOutOfMemory(t *testing.T) {
	h := startHost(t, 0)
	h.fake.Faults.Fail(forward.ExpertID{Expert: 1}, device.ErrOutOfMemory)
	h.plan([]uint32{0}, []uint32{1})
	h.await("the refusal", func() bool { return h.member().GetRefused() != nil })
	if r := h.member().Refused; r.Experts != 2 || r.NeedBytes != 2*devicetest.Bytes || r.RoomBytes != devicetest.Bytes {
		t.Errorf("%v", r)
	}
}

// A load that fails is tried again; it is no refusal.
func TestFailedLoad(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	broken := forward.ExpertID{Expert: 1}
	h.fake.Faults.Fail(broken, fmt.Errorf("a broken disk"))
	version := h.plan([]uint32{0}, []uint32{1})
	h.await("two tries", func() bool {
		return 2 <= len(slices.DeleteFunc(h.fake.Faults.Began(), func(id forward.ExpertID) bool { return id != broken }))
	})
	if h.member().GetRefused() != nil || strings.Count(h.log.String(), "a broken disk") != 1 {
		t.Errorf("refused %v:\n%s", h.member().GetRefused(), h.log.String())
	}
	h.awaitServing(0)
	h.fake.Faults.Fail(broken, nil)
	h.awaitApplied(version)
}

// The planner gives a host that has refused what it has room for.
func TestPlanAfterRefusal(t *testing.T) {
	h := startHost(t, 3) // and says that it has no limit
	other := h.d.NewPresence("expert-other", "expert")
	run(t, func(ctx context.Context) {
		if _, err := other.Watch(ctx); err != nil {
			t.Error(err)
		}
		_ = other.Announce(ctx)
	})
	h.await("the other host", func() bool { return len(h.view.Snapshot()) == 2 })
	run(t, h.planner().Run)
	h.await("the refusal", func() bool { return h.member().GetRefused() != nil })
	h.await("a plan applied", func() bool { return h.member().PlanVersion > h.member().Refused.PlanVersion })
	p, err := h.d.Plans.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, need := h.needs(p); n != 3 || need > h.fake.Memory().Budget {
		t.Errorf("plan %d wants %d experts of %d bytes here", p.Version(), n, need)
	}
}

func TestBudgetBelowOneExpert(t *testing.T) {
	d := testdeployment.Open(t)
	one := New(d, Config{}).expertBytes
	for budget, says := range map[uint64]string{0: "", one: "", one - 1: fmt.Sprintf("is %d bytes; an expert of model tiny has %d", one-1, one)} {
		err := Config{MemoryBudget: budget}.Check(d.Model)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v, want %q", budget, err, says)
		}
	}
}
