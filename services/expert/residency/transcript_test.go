package residency

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testplan"
	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// TestTranscripts replays what happens to hosts, which have fake devices, and to one
// gate. The model has experts 0 to 3 in layers 0 and 1. Events:
//
//	hosts HOST… load= join=          new hosts, and how long they load an expert and join a group
//	slow HOST LAYER EXPERT takes=    one expert's loads last longer there
//	plan LAYER VERSION EXPERTS@HOSTS…
//	wait DURATION
//	kill HOST                        without a farewell
//
// The times are those since the transcript's beginning. A host's line is what it
// announces of a function, layer/experts; the gate's is what it uses in a layer.
func TestTranscripts(t *testing.T) {
	transcript.RunInBubble(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		g := &stage{t: t, began: time.Now(), hosts: map[string]*actor{}, plans: map[int]*plan.Layer{}, routes: map[int]*plan.Routes{}, names: map[string]string{}}
		t.Cleanup(func() {
			for id := range g.hosts {
				g.kill(id)
			}
		})
		return g.event
	})
}

// stage is some hosts and a gate, and what they say to each other.
type stage struct {
	t     testing.TB
	began time.Time

	mu     sync.Mutex
	hosts  map[string]*actor // live
	plans  map[int]*plan.Layer
	routes map[int]*plan.Routes // the gate's
	names  map[string]string    // a function's layer and experts, by its id
	told   []string
}

func (g *stage) event(t testing.TB, e *transcript.Event) []string {
	t.Helper()
	switch e.Name {
	case "hosts":
		for _, id := range e.Args {
			g.start(t, id, e)
		}
	case "slow":
		takes := e.Duration(t, "takes", 20*time.Second)
		g.hosts[e.Arg(t, 0)].fake.Faults.Take(expertOf(e.Arg(t, 1), e.Arg(t, 2)), takes)
	case "plan":
		g.plan(t, e)
	case "wait":
		d, err := time.ParseDuration(e.Arg(t, 0))
		if err != nil {
			e.Fatalf(t, "%v", err)
		}
		g.wait(d)
	case "kill":
		g.kill(e.Arg(t, 0))
	default:
		e.Fatalf(t, "there is no such event")
	}
	synctest.Wait()
	return g.lines()
}

func expertOf(layer, expert string) forward.ExpertID {
	return forward.ExpertID{Layer: int(layer[0] - '0'), Expert: int(expert[0] - '0')}
}

func (g *stage) start(t testing.TB, id string, e *transcript.Event) {
	t.Helper()
	fake := devicetest.NewFake(rig.Layers, rig.Experts, device.Settings{Ended: func(end device.Ended) {
		if end.Err != nil {
			g.tell("%s loads expert %d of layer %d: given up after %v", id, end.ID.Expert, end.ID.Layer, end.Took)
		}
	}})
	for i := range rig.Layers * rig.Experts {
		fake.Faults.Take(forward.ExpertID{Layer: i / rig.Experts, Expert: i % rig.Experts}, e.Duration(t, "load", 100*time.Millisecond))
	}
	h := &actor{
		Residency: New(settings(t, id, fake)), id: id, fake: fake, stage: g, joins: e.Duration(t, "join", 5*time.Millisecond), says: map[int]*pb.HostLayer{},
	}
	h.Begin(t.Context(), h)
	g.hosts[id] = h
}

func (g *stage) plan(t testing.TB, e *transcript.Event) {
	t.Helper()
	layer := int(e.Arg(t, 0)[0] - '0')
	l, err := (plan.Rules{MoELayers: []int{0, 1}, Experts: 4}).Check(testplan.Parse(t, layer, e.Arg(t, 1), e.Args[2:]...))
	if err != nil {
		e.Fatalf(t, "%v", err)
	}
	g.mu.Lock()
	for _, f := range l.Functions {
		g.names[f.Id] = fmt.Sprintf("%d/%s", layer, testplan.Digits(f.Experts))
	}
	g.plans[layer] = l
	g.route(layer)
	g.mu.Unlock()
	for _, h := range g.hosts {
		h.Adopt(l)
	}
}

// wait lets time pass; hosts look at what they have retired each full second.
func (g *stage) wait(d time.Duration) {
	for end := time.Now().Add(d); ; {
		now := time.Now()
		next := g.began.Add(now.Sub(g.began).Truncate(retireEvery) + retireEvery)
		if next.After(end) {
			time.Sleep(end.Sub(now))
			return
		}
		time.Sleep(next.Sub(now))
		synctest.Wait()
		for _, h := range g.hosts {
			h.look(g.members(), time.Now())
		}
	}
}

func (g *stage) members() []*pb.Member {
	all := []*pb.Member{{Id: "gate", Service: "gate"}}
	for id := range g.hosts {
		all = append(all, &pb.Member{Id: id, Service: "expert"})
	}
	return all
}

// kill ends a host, of which nothing may be left.
func (g *stage) kill(id string) {
	g.mu.Lock()
	h := g.hosts[id]
	delete(g.hosts, id)
	for layer := range g.plans {
		g.route(layer)
	}
	g.mu.Unlock()
	h.End()
	if err := h.Free(context.Background()); err != nil {
		g.t.Error(err)
	}
	h.fake.Close()
	n := h.fake.Live() + h.fake.Memory().Used
	if g.tell("%s is dead: %d bytes are left", id, n); n != 0 {
		g.t.Errorf("%d bytes of %s are left", n, id)
	}
}

// route lets the gate choose its functions anew; mu is held.
func (g *stage) route(layer int) {
	before := testplan.Routes(g.routes[layer])
	g.routes[layer] = g.plans[layer].Next(g.routes[layer], func(function string) (r plan.Replicas) {
		for _, one := range g.replicas(layer, function) {
			if one.Warm() {
				r.Serving = append(r.Serving, one.Host)
			}
		}
		slices.Sort(r.Serving)
		return r
	})
	if now := testplan.Routes(g.routes[layer]); now != before {
		g.tellLocked("gate %d: %s", layer, now)
	}
}

func (g *stage) replicas(layer int, function string) (out []planstore.Replica) {
	for id, h := range g.hosts {
		for _, f := range h.says[layer].GetFunctions() {
			if f.Id == function {
				out = append(out, planstore.Replica{Host: id, Phase: f.Phase, Joined: f.Joined})
			}
		}
	}
	return out
}

func (g *stage) tell(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tellLocked(format, args...)
}

func (g *stage) tellLocked(format string, args ...any) {
	g.told = append(g.told, fmt.Sprintf("%7.3fs ", time.Since(g.began).Seconds())+fmt.Sprintf(format, args...))
}

// lines are what was told since. Of what happens at the same time, the order is
// one that does not change, and of each function only the last state is shown.
func (g *stage) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.told
	g.told = nil
	head := func(line string) string { h, _, _ := strings.Cut(line, ":"); return h }
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(head(a), head(b)) })
	var out []string
	for i, line := range all {
		if i+1 == len(all) || head(all[i+1]) != head(line) {
			out = append(out, line)
		}
	}
	return out
}
