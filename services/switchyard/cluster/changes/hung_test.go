package changes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/functions"
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

const (
	hungTokens = 48
	// becauseHung is how often rows may be issued again that the hung replica has: those that it
	// gets until it is missed. By itself that is once or a few times; a machine that is late to
	// miss it has more of them. If it were never missed, half of all groups would be: there are
	// three for each token.
	becauseHung = hungTokens / 3
)

// A hung replica keeps what it has asked for, and in a queue group its place,
// while its sibling is healthy. It costs one re-issue or a few, not one for
// every message that it gets.
func TestHungReplica(t *testing.T) {
	for _, hops := range testkit.Some([]schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked, schemas.HopsCore}) {
		for kind, hang := range map[string]func(*sham){"gate": (*sham).hangGate, "expert": (*sham).hangExpert} {
			t.Run(fmt.Sprintf("%s/%s", hops, kind), func(t *testing.T) {
				t.Parallel()
				y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Joined(tensor.BF16, hops), func(s *cluster.Settings) { s.Services.Expert.Plans.Replicas = 2 })
				s := newSham(t, y, kind)
				s.awaitSeen()
				again := watchReissues(t, y)
				tokens := 0
				for c, err := range y.Ask(t, prompted(hungTokens, 0, y.Settings.Node.Shared.Model.Spec.Vocab)) {
					if err != nil {
						t.Fatal(err)
					}
					if tokens += len(c.TokenIds); c.Index == hungTokens/8 {
						s.silence()
						hang(s)
					}
				}
				if because := again(s.hasRows); tokens != hungTokens || because > becauseHung {
					t.Errorf("%d tokens; rows were issued again %d times because of %d messages that the hung one has", tokens, because, s.has())
				}
			})
		}
	}
}

// attemptOf names the rows of a step that a message has, and how often they had been issued.
func attemptOf(k *pb.Key, attempt uint32) string {
	return fmt.Sprint(k.GetOwner(), k.GetEpoch(), " step ", k.GetStep(), " layer ", k.GetLayer(), " part ", k.GetPart(), " attempt ", attempt)
}

// watchReissues counts rows that attention issues again of which somebody has the attempt before.
func watchReissues(t *testing.T, y clustertest.Cluster) func(has func(rows string) bool) (because int) {
	t.Helper()
	var mu sync.Mutex
	var before []string
	nc, s := y.Conn(t).NATS(), y.Settings.Node.Names().Subjects
	for _, subject := range []string{s.AnyHidden(), s.AnyGate()} {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if h := (&pb.Hidden{}); proto.Unmarshal(m.Data, h) == nil && h.Key.GetAttempt() > 0 {
				mu.Lock()
				defer mu.Unlock()
				before = append(before, attemptOf(h.Key, h.Key.Attempt-1))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(has func(string) bool) (because int) {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rows := range before {
			if has(rows) {
				because++
			}
		}
		return because
	}
}

// sham is a replica that is nothing but its entry among the members, until it
// hangs: then it is nothing but what the server thinks that it wants.
type sham struct {
	t      *testing.T
	d      *deployment.Deployment
	view   *members.View
	states *functions.View
	mu     sync.Mutex
	member *pb.Member
	quiet  func()
	taken  map[string]bool // the rows that it has and does not compute
}

// hasRows says whether it has got rows.
func (s *sham) hasRows(rows string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[rows]
}

// has is how many rows it has got.
func (s *sham) has() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
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
	s := &sham{t: t, d: d, taken: map[string]bool{}, member: &pb.Member{
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
	said, err := functions.NewAnnouncer(d.Functions)
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
	if s.states, err = functions.NewView(d.Functions, d.FunctionRules()); err != nil {
		t.Fatal(err)
	}
	tasks.Go(func() { s.states.Follow(ctx, nil, func(functions.Change) {}) })
	t.Cleanup(func() { stop(); tasks.Wait() })
	return s
}

// applied says that a layer's plan is, at once: this replica loads nothing.
func (s *sham) applied(said *functions.Announcer, l *plan.Layer) {
	r := &pb.HostLayer{Host: s.member.Id, Layer: l.Layer}
	for _, f := range l.Functions {
		if plan.WantOn(f, s.member.Id) != pb.Want_WANT_UNSPECIFIED {
			r.Functions = append(r.Functions, &pb.FunctionState{Id: f.Id, Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM, Joined: true})
		}
	}
	if len(r.Functions) == 0 {
		return
	}
	if err := said.Set(functions.HostKey(int(l.Layer), s.member.Id), r); err != nil {
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
	s.swallow(bus.Receiver{Stream: s.d.Streams.Hidden(), Name: "gate", Subject: s.d.Subjects.AnyHidden(), MaxInFlight: 64}, func() keyed { return &pb.Hidden{} })
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
			}, func() keyed { return &pb.Dispatch{} })
		}
	}
}

// keyed is a message with rows of a step.
type keyed interface {
	proto.Message
	GetKey() *pb.Key
}

// swallow takes messages and is never done with them.
func (s *sham) swallow(r bus.Receiver, empty func() keyed) {
	running, err := s.d.Hop.Receive(s.t.Context(), r, func(ctx context.Context, m *bus.Msg) error {
		if rows := empty(); proto.Unmarshal(m.Data, rows) == nil {
			s.mu.Lock()
			s.taken[attemptOf(rows.GetKey(), rows.GetKey().GetAttempt())] = true
			s.mu.Unlock()
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { running.Stop(); <-running.Closed() })
}
