package expert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
)

// run lets something run until the test ends.
func run(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// newHost is a host on the CPU.
func newHost(t *testing.T, d *deployment.Deployment) *Service {
	t.Helper()
	s, err := New(d, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A host that does not get on answers no call, so the plan is soon without it.
func TestStuckHostIsMute(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	s := newHost(t, d)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) { _ = s.presence.Announce(ctx) })
	s.presence.SetCalling(true)
	answers := func(want bool) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("answers: %v", want), func() bool {
			those, _ := s.view.Answered("expert")
			return (len(those) > 0) == want
		})
	}
	answers(true)
	hangs := s.computers.Take(time.Now().Add(-compute.StuckAfter))
	s.computers.Give(s.computers.Take(time.Now())) // another dispatch of the same function
	answers(false)
	s.computers.Give(hangs)
	answers(true)
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A planner that has just begun to listen leaves nobody out who is here.
func TestPlannerHearsEverybody(t *testing.T) {
	d, stood := testdeployment.Open(t), testkit.Standing(t)
	var hosts []plan.Host
	for _, id := range []string{"expert-a", "expert-b", "expert-c"} {
		p := d.NewPresence(id, "expert")
		run(t, func(ctx context.Context) {
			if _, err := p.Watch(ctx); err != nil {
				t.Error(err)
			}
			if err := p.Announce(ctx); err != nil {
				t.Error(err)
			}
		})
		hosts = append(hosts, plan.Host{ID: id})
	}
	s := newHost(t, d)
	first, err := static.Plan(plan.Known{Model: s.planner().Model, Settings: plan.DefaultSettings(), Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Plans.Write(t.Context(), nil, first.Layers, planstore.Writer{}); err != nil {
		t.Fatal(err)
	}
	plans := make(chan *plan.Layer, 64)
	run(t, func(ctx context.Context) { _ = d.Plans.Follow(ctx, func(v planstore.Value) { plans <- v.Plan }) })
	<-plans
	<-plans // one a layer
	testkit.Eventually(t, "all hosts are members", func() bool {
		all, err := members.List(t.Context(), d.Members)
		return err == nil && len(all) == len(hosts)
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, s.planner().Run)
	run(t, func(ctx context.Context) { _ = s.presence.Announce(ctx) })
	select {
	case p := <-plans:
		want := []string{"expert-a", "expert-b", "expert-c", s.id}
		slices.Sort(want)
		got := slices.Sorted(maps.Keys(plan.Hosts(map[int]*plan.Layer{0: p})))
		// Where the process stood still a host was late, which a planner that has just begun cannot know.
		if late := stood() > (members.Hearing-members.Interval)/2; !slices.Equal(got, want) && !late {
			t.Errorf("the first plan is for %v, want %v", got, want)
		}
	case <-time.After(testkit.Patience):
		t.Error("no plan was made")
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A host whose device holds less than it claims is planned for what it holds.
func TestPlannerHearsOfLiar(t *testing.T) {
	t.Parallel()
	h := startHost(t, 0)
	for i := range 8 { // it has room for one
		if id := (forward.ExpertID{Layer: i / 4, Expert: i % 4}); i > 0 {
			h.fake.Faults.Fail(id, device.ErrOutOfMemory)
		}
	}
	run(t, h.planner().Run)
	other := h.d.NewPresence("expert-other", "expert")
	run(t, func(ctx context.Context) {
		if _, err := other.Watch(ctx); err != nil {
			t.Error(err)
		}
		_ = other.Announce(ctx)
	})
	h.await("a plan that fits", func() bool {
		plans, err := h.d.Plans.Read(t.Context())
		n, hosts := 0, plan.Hosts(plans.Layers())
		for _, l := range plans.Layers() {
			for _, f := range l.Functions {
				if plan.WantOn(f, h.id) != pb.Want_WANT_UNSPECIFIED {
					n += len(f.Experts)
				}
			}
		}
		return err == nil && hosts["expert-other"] && n <= 1 && h.member().GetMemoryBudgetBytes()-1 < devicetest.Bytes // 0 is no limit
	})
}

// While a scaler is ready, the hosts' planners leave the lease to it.
func TestPlannerYields(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	s := newHost(t, d)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, s.planner().Run)
	run(t, func(ctx context.Context) { _ = s.presence.Announce(ctx) })
	awaitOwner(t, d, s.id)
	scaler := d.NewPresence("scaler-a", "scaler")
	if _, err := scaler.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) { _ = scaler.Announce(ctx) })
	scaler.SetReady(true)
	awaitOwner(t, d, "")
	scaler.Drain()
	awaitOwner(t, d, s.id)
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// awaitOwner waits until the planner's lease is somebody's, or nobody's.
func awaitOwner(t *testing.T, d *deployment.Deployment, want string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the planner's lease of %q", want), func() bool {
		l := &pb.Lease{}
		entry, err := d.Leases.Get(t.Context(), "planner")
		return err == nil && proto.Unmarshal(entry.Value(), l) == nil && l.Owner == want
	})
}
