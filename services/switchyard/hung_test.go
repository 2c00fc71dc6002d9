package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

const (
	hungTokens = 80
	// hungReissues is how often rows may be issued again because of one hung
	// replica: once a microbatch, and once more when it is missed or replaced. On a
	// slow machine rows are late by themselves, too, which a budget bounds: 16 at once,
	// and a tenth of the answer's groups, one a layer. The replica gets half of seven
	// eighths of them.
	hungReissues = 6 + 16 + hungTokens*8/10
)

// A hung replica keeps what it has asked for, and in a queue group its place,
// while its sibling is healthy. It costs one re-issue or a few, not one for
// every message that it gets.
func TestHungReplica(t *testing.T) {
	for _, hops := range []schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked, schemas.HopsCore} {
		for kind, hang := range map[string]func(*sham){"gate": (*sham).hangGate, "expert": (*sham).hangExpert} {
			t.Run(fmt.Sprintf("%s/%s", hops, kind), func(t *testing.T) {
				t.Parallel()
				y := openTestYard(t, func(up *UpCmd) { up.Hops, up.Replication = string(hops), 2 })
				s := newSham(t, y, kind)
				s.awaitSeen()
				reissues := y.countReissues(t)
				tokens := 0
				for c, err := range y.stream(t, hungTokens) {
					if err != nil {
						t.Fatal(err)
					}
					if tokens += len(c.TokenIds); c.Index == hungTokens/8 {
						s.silence()
						hang(s)
					}
				}
				if n := reissues.Load(); tokens != hungTokens || n > hungReissues {
					t.Errorf("%d tokens, and rows were issued again %d times", tokens, n)
				}
			})
		}
	}
}

// testYard is a whole pipeline for a test.
type testYard struct{ *cluster.Cluster }

func openTestYard(t *testing.T, set func(*UpCmd)) testYard {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	return openYardOf(t, m, cluster.OneEach(), set)
}

// openYardOf has count replicas of each service of m.
func openYardOf(t *testing.T, m *model.Model, count map[string]int, set func(*UpCmd), change ...func(*cluster.Services)) testYard {
	t.Helper()
	up, err := ownUp()
	if err != nil {
		t.Fatal(err)
	}
	set(&up)
	made, err := up.services(Globals{Prefix: schemas.DefaultPrefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&made)
	}
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{ServiceName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{Globals: Globals{Prefix: schemas.DefaultPrefix}, log: slog.New(slog.DiscardHandler)}
	n := nodeOf(e, up.ModelFlags, m, pool.New(1), tel)
	y, err := openCluster(context.Background(), cluster.Settings{Node: n, Services: made, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return testYard{y}
}

func (y testYard) connect(t *testing.T) *bus.Conn {
	t.Helper()
	c, err := y.Cluster.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// stream asks for so many tokens.
func (y testYard) stream(t *testing.T, tokens int32) func(func(*pb.Chunk, error) bool) {
	t.Helper()
	c := client.New(y.connect(t).NATS(), client.Settings{Prefix: schemas.DefaultPrefix, Model: "demo"})
	s, err := c.Prompt(t.Context(), &pb.Prompt{Text: "Once upon a time", MaxTokens: &tokens, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	return s.Chunks()
}

// countReissues counts hidden rows of later attempts than the first.
func (y testYard) countReissues(t *testing.T) *atomic.Int64 {
	t.Helper()
	n := &atomic.Int64{}
	nc, s := y.connect(t).NATS(), schemas.NewSubjects(schemas.DefaultPrefix, "demo")
	for _, subject := range []string{s.AnyHidden(), s.AnyGate()} {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if h := (&pb.Hidden{}); proto.Unmarshal(m.Data, h) == nil && h.Key.GetAttempt() > 0 {
				n.Add(1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return n
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
}

func newSham(t *testing.T, y testYard, service string) *sham {
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
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { running.Stop(); <-running.Closed() })
}
