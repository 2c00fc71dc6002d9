package serving

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
	"github.com/switchyard/switchyard/services/expert/residency"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// host is what serves, on a device with faults, and those around it played by the
// test: the aggregator, which gets partials, and attention, which gets refusals.
type host struct {
	*Serving
	presence
	t         testing.TB
	d         *deployment.Deployment
	fake      rig.Device
	functions *residency.Residency
	counter   *loads.Counter
	f         *residency.Function // experts 0 and 1 of layer 0; 2 and 3 are planned elsewhere
	partials  *testdeployment.Received[*pb.Partial]
	blocks    *testdeployment.Received[*pb.Block]
}

// newHost has room for so many experts; 0 is no limit.
func newHost(t testing.TB, room int) *host {
	t.Helper()
	d := testdeployment.Open(t)
	h := &host{
		t: t, d: d, fake: rig.NewDevice(room), counter: loads.NewCounter(d.Identity.Model, "here", d.Shape.MoE, rig.Experts),
		partials: testdeployment.Listen[*pb.Partial](t, d, bus.Receiver{
			Stream: d.Streams.Partial(), Name: "a", Subject: d.Subjects.Partial("a"), Sole: true,
		}),
		blocks: testdeployment.Listen[*pb.Block](t, d, bus.Receiver{
			Stream: d.Streams.Block(), Name: "attention-1", Subject: d.Subjects.Block("attention-1"), Sole: true,
		}),
	}
	h.functions = residency.New(residency.Settings{
		Host: "here", Layers: len(d.MoELayers()), Device: h.fake, Presence: &h.presence, Metrics: d.Telemetry.Metrics, Logger: d.Logger,
	})
	h.functions.Begin(t.Context(), network{})
	h.Serving = New(Settings{
		Deployment: d, Host: "here", Presence: &h.presence, Tracer: d.Telemetry.Tracer("expert", "here"),
		Functions: h.functions, Computers: compute.New(h.fake, d.Shape, d.Wire, nil), Loads: h.counter,
	})
	if err := h.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.end)
	h.plan()
	return h
}

// end wants nothing to be left of the host.
func (h *host) end() {
	h.functions.End()
	_ = h.Drain(context.Background()) // the connection may be closed
	if err := h.functions.Free(context.Background()); err != nil {
		h.t.Error(err)
	}
	h.fake.Close()
	h.fake.Left(h.t)
}

// plan wants experts 0 and 1 of layer 0 as a function here, and waits until it is warm.
func (h *host) plan() {
	h.t.Helper()
	h.functions.Adopt(rig.Check(h.t, 1, rig.Plans(rig.Wanted("here", pb.Want_WANT_WARM, 0, 1))[0]))
	testkit.Eventually(h.t, "a warm function", func() (warm bool) {
		h.f, warm, _ = h.functions.Named(0, rig.ID(0, 1))
		return warm
	})
}

// presence is the host's figures among the members.
type presence struct {
	mu      sync.Mutex
	figures map[string]float64
}

func (p *presence) Add(name string, n float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.figures == nil {
		p.figures = map[string]float64{}
	}
	p.figures[name] += n
}

func (p *presence) Set(string, float64) {}

func (p *presence) SetBudget(uint64) {}

func (p *presence) figure(name string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.figures[name]
}

// network is one in which functions join groups that no rows come to.
type network struct{}

func (network) Join(context.Context, *residency.Function, int) (residency.Group, error) {
	return network{}, nil
}

func (network) Remove(context.Context, *residency.Function) error { return nil }

func (network) Announce(*pb.HostLayer) {}

func (network) Acknowledged(string, int) uint64 { return 0 }

func (network) Replicas(int, string) []planstore.Replica { return nil }

func (network) Drain(context.Context) error { return nil }

func (network) Waiting() int { return 0 }

// rows are of experts 0, 1 and 1, as of a step.
func (h *host) rows(step uint64) *pb.Dispatch {
	d := rig.Dispatch(tensor.BF16, h.d.Model.Spec.Hidden, 0, 1, 1)
	d.Key.Model, d.Key.Step, d.Function = h.d.Identity.Model, step, h.f.ID()
	return d
}

// takes has a dispatch come from the function's group.
func (h *host) takes(d *pb.Dispatch) error {
	body, err := proto.Marshal(d)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Receive(h.t.Context(), &bus.Msg{Data: body}, h.f)
}

// Rows whose expert is gone, as when the device dropped it, are no refusal: they
// may come again, and are served when the expert is back.
func TestServeWithoutAnExpert(t *testing.T) {
	h := newHost(t, 0)
	d := h.rows(1)
	d.Expert[2] = 3
	if err := h.takes(d); err == nil {
		t.Fatal("computed with a cold expert")
	}
	back := h.fake.Load(t.Context(), forward.ExpertID{Expert: 3}, 1)
	defer func() { back.Release(); _ = h.fake.Evict(back.ID) }()
	if err := back.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.takes(d); err != nil {
		t.Fatal(err)
	}
	got := h.partials.Take(t, 1)
	if len(got) != 1 || !slices.Equal(got[0].Place, []uint32{0, 1, 2}) {
		t.Errorf("%v", got)
	}
	if told := h.blocks.All(); len(told) > 0 {
		t.Errorf("told %v", told)
	}
	if l := h.counter.Take(time.Second, false); len(l) != 1 || !slices.Equal(l[0].Expert, []uint32{0, 1, 3}) || !slices.Equal(l[0].Rows, []uint64{1, 1, 1}) {
		t.Errorf("loads are %v: what failed does not count", l)
	}
	if f := h.functions.Loads()[0]; len(f) != 1 || f[0].Messages != 1 || f[0].Rows != 3 {
		t.Errorf("of functions %v", f)
	}
	if messages, rows := h.figure(members.HostMessages), h.figure(members.HostRows); messages != 1 || rows != 3 {
		t.Errorf("the members see %v messages, %v rows", messages, rows)
	}
}

// What can never be computed is refused to its owner, and the rows behind it get
// what they would have got.
func TestServeRefuses(t *testing.T) {
	h := newHost(t, 0)
	for name, change := range map[string]func(*pb.Dispatch){
		"another model":  func(d *pb.Dispatch) { d.Key.Model++ },
		"no tensor":      func(d *pb.Dispatch) { d.Tensor = nil },
		"fewer weights":  func(d *pb.Dispatch) { d.Weight = d.Weight[:1] },
		"no such expert": func(d *pb.Dispatch) { d.Expert[0] = 1 << 20 },
		"no such layer":  func(d *pb.Dispatch) { d.Key.Layer = 1 << 20 },
		"no such row":    func(d *pb.Dispatch) { d.Place[2] = 1 << 30 },
	} {
		before := len(h.blocks.All())
		d := h.rows(2)
		change(d)
		if err := h.takes(d); err == nil {
			t.Errorf("%s: computed", name)
		}
		if last := h.blocks.Take(t, before+1)[before]; last.Error.GetMessage() == "" || last.Key.GetStep() != 2 {
			t.Errorf("%s: told %v", name, last)
		}
	}
	if err := h.takes(h.rows(3)); err != nil {
		t.Fatal(err)
	}
	if got := h.partials.Take(t, 1); len(got) != 1 || got[0].Key.Step != 3 {
		t.Errorf("%v", got)
	}
}

// Rows that failed hold none of their experts: the host's end frees all (newHost).
func TestServeHoldsNothing(t *testing.T) {
	h := newHost(t, 0)
	bad := h.rows(1)
	bad.Expert[2] = 3 // cold
	if err := h.takes(bad); err == nil {
		t.Fatal("computed with a cold expert")
	}
}

// A partial that cannot be sent is an error that is not the rows' own.
func TestServeWithoutConnection(t *testing.T) {
	h := newHost(t, 0)
	h.d.Conn.Close()
	if err := h.takes(h.rows(1)); err == nil || compute.Permanent(err) {
		t.Errorf("%v", err)
	}
}

// BenchmarkServe is what a dispatch to a warm function goes through on a host, from the bytes
// that come to the partial that is sent, on a device that takes no time. Several come at once.
func BenchmarkServe(b *testing.B) {
	h := newHost(b, 0)
	body, err := proto.Marshal(h.rows(1))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := h.Receive(b.Context(), &bus.Msg{Data: body, Arrived: time.Now()}, h.f); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
