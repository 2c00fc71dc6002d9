package gate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The size that plans must bear.
const (
	sizeLayers, sizeExperts = 61, 256
	sizeHosts, sizeGates    = 1000, 8
	hostsPerConn            = 50
	// wantBytes and wantCalls bound what one expert's new replica writes, and how often
	// it calls each gate.
	wantBytes, wantCalls = 64 << 10, 4
)

// large is hosts and gates that know plans and functions' states, and nothing else.
type large struct {
	t       *testing.T
	srv     *natsserver.Server
	store   *planstore.Store
	s       planstore.FunctionSettings
	gates   []*planSwitch
	work    []*work      // of each gate
	written atomic.Int64 // bytes to both buckets
	largest atomic.Int64
	heard   atomic.Int64 // plans, by all hosts
	plans   int64        // written
}

// work is what a gate's handlers have done.
type work struct{ calls, nanoseconds atomic.Int64 }

// TestSize has one expert gain a replica, and writes a full plan. It takes a minute:
// set SWITCHYARD_SIZE=1.
func TestSize(t *testing.T) {
	if os.Getenv("SWITCHYARD_SIZE") == "" {
		t.Skip("set SWITCHYARD_SIZE=1")
	}
	l := newLarge(t)
	full := l.full()
	began := time.Now()
	state := l.write(nil, full...)
	wrote := time.Since(began)
	l.until("all functions are warm", func(p *planSwitch) bool { return p.ready() == nil }, 20*time.Millisecond)
	t.Logf("full plan: written in %v, used by all gates after %v; %d bytes in both buckets, the largest value %d",
		wrote.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), l.written.Load(), l.largest.Load())
	l.settle()
	l.written.Store(0)
	for _, w := range l.work {
		w.calls.Store(0)
		w.nanoseconds.Store(0)
	}
	change := proto.CloneOf(full[30])
	change.Functions[17].Placements = append(change.Functions[17].Placements, &pb.Placement{Host: hostID(999), Want: pb.Want_WANT_WARM})
	began = time.Now()
	l.write(state, change)
	l.until("the replica is used", func(p *planSwitch) bool {
		r := p.in(30)
		return len(r.Targets[r.Of(17)].Hosts) == 2
	}, 200*time.Microsecond)
	took := time.Since(began)
	l.settle()
	var calls, nanoseconds int64
	for _, w := range l.work {
		calls, nanoseconds = max(calls, w.calls.Load()), max(nanoseconds, w.nanoseconds.Load())
	}
	t.Logf("one replica: used by all gates after %v; %d bytes in both buckets; at most %d calls and %v in a gate",
		took.Round(100*time.Microsecond), l.written.Load(), calls, time.Duration(nanoseconds))
	if n := l.written.Load(); n > wantBytes {
		t.Errorf("%d bytes were written", n)
	}
	if calls > wantCalls {
		t.Errorf("a gate was called %d times", calls)
	}
}

// TestSizeInGroups has a hot expert of eight layers leave its function and gain a replica, as many as one
// decision may try at first, and one of every layer at once, where experts share functions as they do by default. Set SWITCHYARD_SIZE=1.
func TestSizeInGroups(t *testing.T) {
	if os.Getenv("SWITCHYARD_SIZE") == "" {
		t.Skip("set SWITCHYARD_SIZE=1")
	}
	l := newLarge(t)
	dealt := l.dealt()
	began := time.Now()
	state := l.write(nil, dealt...)
	l.until("all functions are warm", func(p *planSwitch) bool { return p.ready() == nil }, 20*time.Millisecond)
	functionsOf := 0
	for _, lp := range dealt {
		functionsOf += len(lp.Functions)
	}
	t.Logf("%d functions: used by all gates after %v; %d bytes in both buckets", functionsOf, time.Since(began).Round(time.Millisecond), l.written.Load())
	for version, n := range []int{8, sizeLayers} {
		l.everywhere()
		var changed []*pb.LayerPlan
		for layer := range n {
			changed = append(changed, leave(state[layer].Plan.LayerPlan, uint32(17+version)))
		}
		began = time.Now()
		state = l.write(state, changed...)
		wrote := time.Since(began)
		l.until("the replicas are used", func(p *planSwitch) bool {
			return !slices.ContainsFunc(l.s.MoELayers[:n], func(layer int) bool {
				r := p.in(layer)
				return r.Version != state[layer].Plan.Version || len(r.Targets[r.Of(int32(17+version))].Hosts) != 2
			})
		}, time.Millisecond)
		t.Logf("a replica in each of %d layers: written in %v, used by all gates after %v", n, wrote.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
}

// dealt is the static policy's plan.
func (l *large) dealt() []*pb.LayerPlan {
	l.t.Helper()
	k := plan.Known{Model: plan.Model{MoELayers: l.s.MoELayers, Experts: sizeExperts}, Settings: plan.DefaultSettings()}
	for h := range sizeHosts {
		k.Hosts = append(k.Hosts, plan.Host{ID: hostID(h)})
	}
	d, err := static.Plan(k)
	if err != nil {
		l.t.Fatal(err)
	}
	return d.Layers
}

// leave is a plan in which an expert leaves its function, and is on another's host, too.
func leave(lp *pb.LayerPlan, expert uint32) *pb.LayerPlan {
	out := proto.CloneOf(lp)
	out.Reason = "hot"
	for i, f := range out.Functions {
		if !slices.Contains(f.Experts, expert) {
			continue
		}
		here, there := f.Placements[0].Host, out.Functions[(i+1)%len(out.Functions)].Placements[0].Host
		out.Functions[i] = plan.Function(int(lp.Layer), slices.DeleteFunc(f.Experts, func(e uint32) bool { return e == expert }), here)
		out.Functions = append(out.Functions, plan.Function(int(lp.Layer), []uint32{expert}, here, there))
		break
	}
	return out
}

func hostID(i int) string { return fmt.Sprintf("expert-%08d", i) }

func newLarge(t *testing.T) *large {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	l := &large{t: t, srv: srv, s: planstore.FunctionSettings{Experts: sizeExperts}}
	for layer := range sizeLayers {
		l.s.MoELayers = append(l.s.MoELayers, layer)
	}
	conn := l.connect()
	l.store, _ = l.buckets(conn)
	if _, err := conn.NATS().Subscribe("$KV.>", func(m *nats.Msg) {
		n := int64(len(m.Subject) + len(m.Data))
		l.written.Add(n)
		if int64(len(m.Data)) > l.largest.Load() {
			l.largest.Store(int64(len(m.Data)))
		}
	}); err != nil {
		t.Fatal(err)
	}
	for g := range sizeGates {
		l.gate(g)
	}
	for first := 0; first < sizeHosts; first += hostsPerConn {
		l.hosts(first)
	}
	return l
}

func (l *large) connect() *bus.Conn {
	l.t.Helper()
	conn, err := bus.Connect(l.t.Context(), bus.Config{}, bus.Settings{InProcess: l.srv, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(conn.Close)
	return conn
}

func (l *large) buckets(conn *bus.Conn) (*planstore.Store, *bus.Bucket) {
	l.t.Helper()
	plans, err := conn.EnsureBucket(l.t.Context(), 1, "plans", 0)
	if err != nil {
		l.t.Fatal(err)
	}
	said, err := conn.EnsureBucket(l.t.Context(), 1, "functions", 0)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := bus.AsBucket(said)
	if err != nil {
		l.t.Fatal(err)
	}
	return planstore.New(plans, planstore.Settings{Rules: plan.Rules{MoELayers: l.s.MoELayers, Experts: sizeExperts}}), b
}

// run lets something run until the test ends.
func (l *large) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	l.t.Cleanup(func() { cancel(); running.Wait() })
}

// gate starts one that does with plans and states what a gate does.
func (l *large) gate(g int) {
	l.t.Helper()
	store, said := l.buckets(l.connect())
	view, err := planstore.NewFunctionView(said, l.s)
	if err != nil {
		l.t.Fatal(err)
	}
	acks, err := planstore.NewAnnouncer(said)
	if err != nil {
		l.t.Fatal(err)
	}
	acks.Rest = planstore.GateRests
	p, w, id := newPlanSwitch(l.s.MoELayers, view), &work{}, fmt.Sprintf("gate-%d", g)
	live := map[string]bool{}
	for h := range sizeHosts {
		live[hostID(h)] = false
	}
	p.members(live)
	l.gates, l.work = append(l.gates, p), append(l.work, w)
	timed := func(f func()) {
		began := time.Now()
		f()
		_ = acks.Set(planstore.GateKey(id), &pb.GateLayers{Gate: id, Versions: p.versions()})
		w.nanoseconds.Add(int64(time.Since(began)))
		w.calls.Add(1)
	}
	l.run(func(ctx context.Context) {
		_ = store.Follow(ctx, func(v planstore.Value) { timed(func() { p.offer(v.Plan) }) })
	})
	layers := newDirty()
	l.run(func(ctx context.Context) {
		layers.each(ctx, func(layer int) { timed(func() { p.heard(layer) }) })
	})
	l.run(func(ctx context.Context) {
		view.Follow(ctx, acks, func(c planstore.FunctionChange) {
			if c.Gate == "" {
				layers.add(c.Layer)
			}
		})
	})
	l.run(func(ctx context.Context) { _ = acks.Run(ctx) })
}

// hosts starts those that share a connection; they load in no time. Each follows what a host
// does. One of them reads plans for all: that takes the processors of the hosts elsewhere.
func (l *large) hosts(first int) {
	l.t.Helper()
	store, said := l.buckets(l.connect())
	announcers := map[string]*planstore.Announcer{}
	for h := first; h < first+hostsPerConn; h++ {
		a, err := planstore.NewAnnouncer(said)
		if err != nil {
			l.t.Fatal(err)
		}
		announcers[hostID(h)] = a
		l.run(func(ctx context.Context) { _ = a.Run(ctx) })
		l.follow(said, a)
	}
	l.run(func(ctx context.Context) {
		_ = store.Follow(ctx, func(v planstore.Value) {
			records := map[string]*pb.HostLayer{}
			for _, f := range v.Plan.Functions {
				for _, p := range f.Placements {
					if announcers[p.Host] == nil {
						continue
					}
					if records[p.Host] == nil {
						records[p.Host] = &pb.HostLayer{Host: p.Host, Layer: v.Plan.Layer}
					}
					records[p.Host].Functions = append(records[p.Host].Functions, &pb.FunctionState{Id: f.Id, Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM, Joined: true})
				}
			}
			for h, r := range records {
				_ = announcers[h].Set(planstore.HostKey(v.Layer, h), r)
			}
		})
	})
}

// follow is what a host follows.
func (l *large) follow(said *bus.Bucket, a *planstore.Announcer) {
	l.t.Helper()
	view, err := planstore.NewFunctionView(said, l.s)
	if err != nil {
		l.t.Fatal(err)
	}
	plans, err := said.Conn().EnsureBucket(l.t.Context(), 1, "plans", 0)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := bus.AsBucket(plans)
	if err != nil {
		l.t.Fatal(err)
	}
	l.run(func(ctx context.Context) { view.FollowOwn(ctx, a) })
	l.run(func(ctx context.Context) {
		_ = b.Follow(ctx, func(string, []byte, uint64) { l.heard.Add(1) })
	})
}

// everywhere waits until each host has heard all plans, and nothing more is written.
func (l *large) everywhere() {
	l.t.Helper()
	for limit := time.Now().Add(100 * time.Second); l.heard.Load() < l.plans*sizeHosts; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			l.t.Fatalf("hosts heard %d plans", l.heard.Load())
		}
	}
	l.settle()
}

// full has each expert alone on one host.
func (l *large) full() (out []*pb.LayerPlan) {
	for layer := range sizeLayers {
		lp := &pb.LayerPlan{Layer: uint32(layer), Reason: "full"}
		for e := range sizeExperts {
			lp.Functions = append(lp.Functions, plan.Function(layer, []uint32{uint32(e)}, hostID((layer*sizeExperts+e)%(sizeHosts-1))))
		}
		out = append(out, lp)
	}
	return out
}

func (l *large) write(old planstore.State, wanted ...*pb.LayerPlan) planstore.State {
	l.t.Helper()
	now, _, err := l.store.Write(l.t.Context(), old, wanted, planstore.Writer{Epoch: 1})
	if err != nil {
		l.t.Fatal(err)
	}
	l.plans += int64(len(wanted))
	return now
}

func (l *large) until(what string, ok func(*planSwitch) bool, every time.Duration) {
	l.t.Helper()
	for limit := time.Now().Add(100 * time.Second); ; time.Sleep(every) {
		if !slices.ContainsFunc(l.gates, func(p *planSwitch) bool { return !ok(p) }) {
			return
		}
		if time.Now().After(limit) {
			l.t.Fatalf("never: %s", what)
		}
	}
}

// settle waits until nothing more is written.
func (l *large) settle() {
	for before := int64(-1); before != l.written.Load(); time.Sleep(300 * time.Millisecond) {
		before = l.written.Load()
	}
}
