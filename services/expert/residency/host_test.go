package residency

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// host has functions of layer 0 on a fake device, in a bubble of the test's time. The test
// plays the gates, the other hosts, and the rows that come.
type host struct {
	*Residency
	t    *testing.T
	fake rig.Device
	log  bytes.Buffer // read by logged

	mu           sync.Mutex
	said         map[int]*pb.HostLayer
	members      []*pb.Member
	acknowledged uint64 // by the gate
	there        string // a function that another host takes the rows of
	figures      map[string]float64
	budget       uint64
	version      uint64 // of the newest plan
}

// settings are those of a host on a device, which others see nothing of.
func settings(t testing.TB, id string, on device.Device) Settings {
	t.Helper()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return Settings{
		Host: id, Layers: rig.Layers, Device: on, Presence: &host{figures: map[string]float64{}}, Metrics: tel.Metrics, Logger: slog.New(slog.DiscardHandler),
	}
}

// play runs a test with a host that has room for so many experts; 0 is no limit.
func play(t *testing.T, room int, with Settings, test func(h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{t: t, said: map[int]*pb.HostLayer{}, figures: map[string]float64{}, fake: rig.NewDevice(room)}
		s := settings(t, "here", h.fake)
		s.KeepAlive, s.Offload, s.United, s.Yield, s.Presence, s.Logger = with.KeepAlive, with.Offload, with.United, with.Yield, h, slog.New(slog.NewTextHandler(&h.log, nil))
		h.Residency = New(s)
		h.Begin(t.Context(), h)
		t.Cleanup(h.end)
		h.run(func(ctx context.Context) { h.Run(ctx, h) })
		test(h)
	})
}

func (h *host) end() {
	h.End()
	if err := h.Free(context.Background()); err != nil {
		h.t.Error(err)
	}
	h.fake.Close()
	h.fake.Left(h.t)
}

// run lets something run until the test ends.
func (h *host) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	h.t.Cleanup(func() { cancel(); running.Wait() })
}

// The host's network, on which joining takes no time.

func (h *host) Join(context.Context, *Function, int) (Group, error) { return h, nil }

func (h *host) Drain(context.Context) error { return nil }

func (h *host) Waiting() int { return 0 }

func (h *host) Remove(context.Context, *Function) error { return nil }

func (h *host) Announce(r *pb.HostLayer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[int(r.Layer)] = r
}

func (h *host) Acknowledged(string, int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acknowledged
}

func (h *host) Replicas(_ int, function string) (out []planstore.Replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.there == function {
		out = append(out, planstore.Replica{Host: "there", Phase: isWarm, Joined: true})
	}
	return out
}

func (h *host) Snapshot() []*pb.Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.members)
}

// The host as the members see it.

func (h *host) Add(name string, n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.figures[name] += n
}

func (h *host) Set(name string, v float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.figures[name] = v
}

// SetBudget asks for the host's figures, as a presence does that tells others at once.
func (h *host) SetBudget(bytes uint64) {
	h.ColdStarts()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget = bytes
}

// wanted is a function of layer 0 that is wanted here.
func (h *host) wanted(w pb.Want, experts ...uint32) *pb.Function {
	return rig.Wanted(h.common.Host, w, experts...)
}

// state is what is wanted of a function, and whether it is borrowed, to be dropped and in its
// group; all zero: it is not here.
func (h *host) state(experts ...uint32) (want pb.Want, borrowed, drop, joined bool) {
	h.table.Lock()
	defer h.table.Unlock()
	f := h.table.functions[rig.ID(experts...)]
	if f == nil {
		return nothing, false, false, false
	}
	return f.want, f.borrowed, f.drop, f.receiving != nil
}

// plan adopts plans that have functions of layer 0 warm on this host, and all other
// experts elsewhere. It returns the version of layer 0's.
func (h *host) plan(here ...[]uint32) uint64 {
	h.t.Helper()
	var fs []*pb.Function
	for _, experts := range here {
		fs = append(fs, h.wanted(warm, experts...))
	}
	return h.planFunctions(fs...)
}

// planFunctions is plan with whatever functions.
func (h *host) planFunctions(fs ...*pb.Function) uint64 {
	h.t.Helper()
	layers := rig.Plans(fs...)
	if h.version++; h.version == 1 {
		h.Adopt(rig.Check(h.t, 1, layers[1]))
	}
	h.Adopt(rig.Check(h.t, h.version, layers[0]))
	return h.version
}

// rows has rows come to a function, as the attempt of a step, and says when they are computed.
func (h *host) rows(step uint64, attempt uint32, experts ...uint32) (computed <-chan error) {
	h.t.Helper()
	h.table.Lock()
	f := h.table.functions[rig.ID(experts...)]
	h.table.Unlock()
	if f == nil {
		h.t.Fatalf("function %v is not here", experts)
	}
	done := make(chan error, 1)
	h.run(func(ctx context.Context) {
		done <- h.compute(ctx, f, &pb.Dispatch{Key: &pb.Key{Step: step, Attempt: attempt}, Expert: experts})
	})
	return done
}

func (h *host) compute(ctx context.Context, f *Function, d *pb.Dispatch) error {
	groups := h.Fit(f, d.Expert)
	if groups == nil {
		groups = [][]uint32{d.Expert}
	}
	for _, experts := range groups {
		if err := h.computePart(ctx, f, &pb.Dispatch{Key: d.Key, Expert: experts}); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) computePart(ctx context.Context, f *Function, d *pb.Dispatch) error {
	a, err := h.Rouse(ctx, f, d, time.Now())
	if err != nil || a.Stale {
		return err
	}
	defer h.Done(f, a)
	for _, e := range d.Expert {
		if p := h.fake.Phase(int(e)); p != device.Warm {
			h.t.Errorf("rows are computed with expert %d, which is %v", e, p)
		}
	}
	return nil
}

// computes waits until rows are computed.
func (h *host) computes(computed <-chan error) {
	h.t.Helper()
	if err := <-computed; err != nil {
		h.t.Error(err)
	}
}

// shown is what the others see of a function of layer 0 here, nil for nothing.
func (h *host) shown(experts ...uint32) *pb.FunctionState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return find(h.said[0], rig.ID(experts...))
}

func (h *host) awaitState(want pb.FunctionPhase, joined bool, experts ...uint32) {
	h.t.Helper()
	h.await(fmt.Sprintf("function %v %v, joined %v", experts, want, joined), func() bool {
		f := h.shown(experts...)
		return f.GetPhase() == want && f.GetJoined() == joined
	})
}

func (h *host) awaitWarm(experts ...uint32) { h.t.Helper(); h.awaitState(isWarm, true, experts...) }

func (h *host) awaitGone(experts ...uint32) {
	h.t.Helper()
	h.await(fmt.Sprintf("function %v gone", experts), func() bool { return h.shown(experts...) == nil })
}

// gate lets there be a gate that acknowledges plans of layer 0.
func (h *host) gate() (acknowledge func(version uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = append(h.members, &pb.Member{Id: "gate-1", Service: "gate"})
	return func(version uint64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.acknowledged = version
	}
}

// elsewhere has another host take a function's rows.
func (h *host) elsewhere(function string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members, h.there = append(h.members, &pb.Member{Id: "there", Service: "expert"}), function
}

// await lets time pass until ok.
func (h *host) await(what string, ok func() bool) {
	h.t.Helper()
	for limit := time.Now().Add(testkit.Patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			h.t.Fatalf("never: %s; experts %v; log:\n%s", what, h.fake.Phases(), h.logged())
		}
	}
}

// logged is the log when everything has been done that needs no time.
func (h *host) logged() string {
	synctest.Wait()
	return h.log.String()
}

// figure is one that the members see.
func (h *host) figure(name string) float64 {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.figures[name]
}

func (h *host) awaitPhase(e int, want device.Phase) {
	h.t.Helper()
	h.await(fmt.Sprintf("expert %d %v", e, want), func() bool { return h.fake.Phase(e) == want })
}

// within fails when the device ever has more than its budget.
func (h *host) within(room int) {
	h.run(func(ctx context.Context) {
		for ctx.Err() == nil && h.fake.Within(h.t, room) {
			time.Sleep(100 * time.Microsecond)
		}
	})
}
