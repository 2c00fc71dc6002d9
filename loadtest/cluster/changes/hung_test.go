package changes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// hungTokens are those of an answer. There are three groups of rows for each, of which a replica
// that is not missed gets half.
const hungTokens = 24

// A hung replica keeps what it has asked for, and in a queue group its place,
// while its sibling is healthy. It costs the re-issues of what it gets until it is
// missed, however late a machine is with that, and none from then on.
func TestHungReplica(t *testing.T) {
	for _, hops := range testkit.Some([]schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked, schemas.HopsCore}) {
		for kind, hang := range map[string]func(*sham){"gate": (*sham).hangGate, "expert": (*sham).hangExpert} {
			t.Run(fmt.Sprintf("%s/%s", hops, kind), func(t *testing.T) {
				t.Parallel()
				y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Joined(tensor.BF16, hops), func(s *cluster.Settings) {
					s.Services.Expert.Plans.Replicas, s.Services.Attention.Speculate = 2, 0 // a token a step
				})
				s := newSham(t, y, kind)
				s.awaitSeen()
				hung := false
				testkit.Eventually(t, "an answer of which the hung one gets nothing", func() bool {
					before, had, tokens := hung, s.had.Load(), 0
					for c, err := range y.Ask(t, prompted(hungTokens, 0, y.Settings.Node.Shared.Model.Spec.Vocab)) {
						if err != nil {
							t.Fatal(err)
						}
						if tokens += len(c.TokenIds); tokens > hungTokens/8 && !hung {
							hung = true
							s.silence()
							hang(s)
						}
					}
					if tokens != hungTokens {
						t.Errorf("%d tokens", tokens)
					}
					return before && s.had.Load() == had
				})
				t.Logf("the hung one had %d messages", s.had.Load())
			})
		}
	}
}

// sham is a replica that is nothing but its entry among the members, until it
// hangs: then it is nothing but what the server thinks that it wants.
type sham struct {
	t      *testing.T
	d      *deployment.Deployment
	view   *members.View
	states *planstore.FunctionView
	mu     sync.Mutex
	member *pb.Member
	quiet  func()
	had    atomic.Int64 // messages with rows, which it does not compute
}

func newSham(t *testing.T, y clustertest.Cluster, service string) *sham {
	t.Helper()
	r, err := y.Settings.Node.Connect(t.Context(), service)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Conn.Close)
	d, err := y.Settings.Node.Deploy(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s := &sham{t: t, d: d, member: &pb.Member{
		Id: deployment.NewID(service), Service: service, Model: d.Subjects.Model, ModelHash: d.Identity.Model,
		NumericClass: d.Kind().NumericClass, Wire: string(d.Wire), Ready: true,
	}}
	ctx, stop := context.WithCancel(context.Background())
	if s.view, err = members.Watch(ctx, d.Members); err != nil {
		t.Fatal(err)
	}
	announcing, quiet := context.WithCancel(ctx)
	s.quiet = quiet
	var tasks sync.WaitGroup
	tasks.Go(func() { s.announce(announcing) })
	said, err := planstore.NewAnnouncer(d.Functions)
	if err != nil {
		t.Fatal(err)
	}
	tasks.Go(func() { _ = said.Run(announcing) })
	tasks.Go(func() {
		_ = d.Plans.Follow(announcing, func(v planstore.Value) {
			if v.Plan != nil {
				s.applied(said, v.Plan)
			}
		})
	})
	if s.states, err = planstore.NewFunctionView(d.Functions, d.FunctionRules()); err != nil {
		t.Fatal(err)
	}
	tasks.Go(func() { s.states.Follow(ctx, nil, func(planstore.FunctionChange) {}) })
	t.Cleanup(func() { stop(); tasks.Wait() })
	return s
}

// applied says that a layer's plan is, at once: this replica loads nothing.
func (s *sham) applied(said *planstore.Announcer, l *plan.Layer) {
	r := &pb.HostLayer{Host: s.member.Id, Layer: l.Layer}
	for _, f := range l.Functions {
		if plan.WantOn(f, s.member.Id) != pb.Want_WANT_UNSPECIFIED {
			r.Functions = append(r.Functions, &pb.FunctionState{Id: f.Id, Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM, Joined: true})
		}
	}
	if len(r.Functions) == 0 {
		return
	}
	if err := said.Set(planstore.HostKey(int(l.Layer), s.member.Id), r); err != nil {
		s.t.Error(err)
	}
}

// announce renews the entry until ctx ends, and says no farewell.
func (s *sham) announce(ctx context.Context) {
	tick := time.NewTicker(members.Interval / 8)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		s.member.Answer = s.view.Answer(s.member.Id)
		err := s.d.Conn.Send(ctx, bus.KeySubject(s.d.Members.Bucket(), s.member.Id), s.member, nil)
		s.mu.Unlock()
		if err != nil {
			s.t.Error(err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// silence ends the announcing.
func (s *sham) silence() { s.quiet() }

// awaitSeen waits until the gate uses a plan that was made with this replica
// among the members.
func (s *sham) awaitSeen() {
	s.t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		state, err := s.d.Plans.Read(s.t.Context())
		planned := s.member.Service != "expert" || err == nil && plan.Hosts(state.Layers())[s.member.Id]
		if planned && s.gateUses(state) && slices.ContainsFunc(s.view.Snapshot(), func(m *pb.Member) bool { return m.Id == s.member.Id }) {
			return
		}
	}
	s.t.Fatal("the replica was never taken up")
}

func (s *sham) gateUses(plans planstore.State) bool {
	for _, m := range members.OfService(s.view.Snapshot(), "gate") {
		behind := m.Id == s.member.Id
		for l, v := range plans {
			behind = behind || v.Plan == nil || s.states.Acknowledged(m.Id, l) < v.Plan.Version
		}
		if !behind {
			return true
		}
	}
	return false
}

// hangGate takes a gate's share of all rows.
func (s *sham) hangGate() {
	s.swallow(bus.Receiver{Stream: s.d.Streams.Hidden(), Name: "gate", Subject: s.d.Subjects.AnyHidden(), MaxInFlight: 64})
}

// hangExpert takes a host's share of the rows of all functions.
func (s *sham) hangExpert() {
	state, err := s.d.Plans.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range state.Layers() {
		for _, f := range l.Functions {
			s.swallow(bus.Receiver{
				Stream: s.d.Streams.Expert(int(l.Layer)), Name: f.Id, Subject: s.d.Subjects.Expert(int(l.Layer), f.Id), MaxInFlight: 16, Private: true,
			})
		}
	}
}

// swallow takes messages and is never done with them.
func (s *sham) swallow(r bus.Receiver) {
	running, err := s.d.Hop.Receive(s.t.Context(), r, func(ctx context.Context, _ *bus.Msg) error {
		s.had.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { running.Stop(); <-running.Closed() })
}
