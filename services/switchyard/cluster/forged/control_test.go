// Package forged tests that pipelines serve on while somebody with more rights than anybody
// should have writes to their plans, members, logs and queues, or deletes them.
package forged

import (
	"context"
	"maps"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// adversary has more rights than anybody should: it writes to a pipeline's shared state.
type adversary struct {
	*asker.Asker
	t     *testing.T
	y     clustertest.Cluster
	conn  *bus.Conn
	names schemas.Streams
	plans jetstream.KeyValue
	count int // of its hosts
}

func newAdversary(t *testing.T, hosts int) *adversary {
	t.Helper()
	y := clustertest.Start(t, clustertest.Open(t, goldens.Dir("mixtral")), clustertest.Hosts(hosts), clustertest.Context(compared.Positions))
	s := &adversary{Asker: compared.Asker(y), t: t, y: y, conn: y.Conn(t), names: y.Settings.Node.Names(), count: hosts}
	var err error
	if s.plans, err = s.conn.EnsureBucket(t.Context(), 1, s.names.Bucket("plans"), 0); err != nil {
		t.Fatal(err)
	}
	y.AwaitHosts(t, hosts)
	return s
}

// layer0 is the plan of layer 0 as it lies there, nil if nobody can read it.
func (s *adversary) layer0() *pb.LayerPlan {
	entry, err := s.plans.Get(s.t.Context(), "0")
	l := &pb.LayerPlan{}
	if err != nil || proto.Unmarshal(entry.Value(), l) != nil {
		return nil
	}
	return l
}

// planned follows the plans. What it returns wants none to have been written that gives another host
// something, and one in the end that has all hosts: a machine that is late with a renewal may take
// one out for a while.
func (s *adversary) planned() (check func()) {
	s.t.Helper()
	var here map[string]bool
	s.until("the plan has the hosts", func() bool { here = s.hosts(); return len(here) == s.count })
	var mu sync.Mutex
	var others []string
	_, err := s.conn.NATS().Subscribe(bus.KeySubject(s.names.Bucket("plans"), "*"), func(m *nats.Msg) {
		l := &pb.LayerPlan{}
		if _, err := strconv.Atoi(schemas.LastToken(m.Subject)); err != nil || proto.Unmarshal(m.Data, l) != nil {
			return // settings
		}
		for host := range hostsOf(l) {
			if !here[host] {
				mu.Lock()
				others = append(others, host)
				mu.Unlock()
			}
		}
	})
	if err == nil {
		err = s.conn.NATS().Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.until("the plan has all hosts", func() bool { return maps.Equal(s.hosts(), here) })
		mu.Lock()
		defer mu.Unlock()
		if len(others) > 0 {
			s.t.Errorf("plans had %v", others)
		}
	}
}

// hosts are those that the plans of all layers give something.
func (s *adversary) hosts() map[string]bool {
	s.t.Helper()
	all := map[string]bool{}
	for l := range s.y.Settings.Node.Shared.Model.Spec.Layers {
		entry, err := s.plans.Get(s.t.Context(), strconv.Itoa(l))
		lp := &pb.LayerPlan{}
		if err == nil {
			err = proto.Unmarshal(entry.Value(), lp)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		maps.Copy(all, hostsOf(lp))
	}
	return all
}

// hostsOf are those that a layer's plan gives something.
func hostsOf(l *pb.LayerPlan) map[string]bool {
	all := map[string]bool{}
	for _, f := range l.GetFunctions() {
		for _, p := range f.Placements {
			all[p.Host] = true
		}
	}
	return all
}

func (s *adversary) put(key string, m proto.Message) {
	s.t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.plans.Put(s.t.Context(), key, body); err != nil {
		s.t.Fatal(err)
	}
}

// answers wants an answer.
func (s *adversary) answers() {
	s.t.Helper()
	if _, err := compared.Sampled(s.t.Context(), s.Asker, 1); err != nil {
		s.t.Error(err)
	}
}

// join starts another replica of a service, as far as that it receives.
func (s *adversary) join(service string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Patience)
	defer cancel()
	n := s.y.Settings.Node
	r, err := n.Connect(ctx, service)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Conn.Close()
	d, err := n.Deploy(ctx, r)
	if err != nil {
		s.t.Fatal(err)
	}
	one, err := s.y.Settings.Services.Make(service, d)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := one.Start(ctx); err != nil {
		s.t.Errorf("another %s does not start: %v", service, err)
	}
	if err := one.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *adversary) until(what string, ok func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, what, ok)
}

// Whatever is written in the place of the plan, requests are served, replicas
// join, and the planner puts a plan there again that goes on.
func TestForgedPlans(t *testing.T) {
	s := newAdversary(t, 1)
	streams := s.streams()
	for _, tc := range []struct {
		name  string
		spoil func(good *pb.LayerPlan)
	}{
		{"undecodable", func(*pb.LayerPlan) { s.write("0", "\xff\xff") }},
		{"deleted", func(*pb.LayerPlan) {
			if err := s.plans.Delete(t.Context(), "0"); err != nil {
				t.Fatal(err)
			}
		}},
		{"last version", func(good *pb.LayerPlan) { good.Version = math.MaxUint64; s.put("0", good) }},
		{"last epoch", func(good *pb.LayerPlan) {
			good.Version, good.WriterEpoch, good.Functions[0].Experts = good.Version+1, math.MaxUint64, nil
			s.put("0", good)
		}},
		{"another layer", func(good *pb.LayerPlan) { good.Layer, good.Version = 1, good.Version+1; s.put("0", good) }},
		{"empty", func(*pb.LayerPlan) { s.write("0", "") }},
		{"a host that is none", func(good *pb.LayerPlan) {
			for _, f := range good.Functions {
				f.Placements = []*pb.Placement{{Host: "expert-none", Want: pb.Want_WANT_WARM}}
			}
			good.Version++
			s.put("0", good)
		}},
	} {
		var good *pb.LayerPlan
		s.until("there is a plan", func() bool { good = s.layer0(); return len(hostsOf(good)) == s.count })
		tc.spoil(proto.CloneOf(good))
		s.join("gate")
		s.join("expert")
		s.answers()
		s.until(tc.name+" is replaced", func() bool {
			l := s.layer0()
			return l != nil && l.Version > good.Version && l.Version < math.MaxUint32 &&
				l.WriterEpoch >= good.WriterEpoch && l.WriterEpoch < math.MaxUint32 && // later, if it was late to renew its lease
				plan.Same(l, good)
		})
		s.answers()
	}
	if n := s.streams(); n != streams {
		t.Errorf("%d streams were %d", n, streams)
	}
}

func (s *adversary) write(key, body string) {
	s.t.Helper()
	if _, err := s.plans.Put(s.t.Context(), key, []byte(body)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *adversary) streams() (n int) {
	for range s.conn.JetStream().StreamNames(s.t.Context()).Name() {
		n++
	}
	return n
}

// crowd renews records of members that are none, until the test ends.
func (s *adversary) crowd(n int, make1 func(i int) *pb.Member) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			for i := range n {
				m := make1(i)
				_ = s.conn.Send(ctx, bus.KeySubject(s.names.Bucket("members"), m.Id), m, nil)
			}
			select {
			case <-ctx.Done():
			case <-time.After(members.Interval / 2):
			}
		}
	})
	s.t.Cleanup(func() { cancel(); renewing.Wait() })
}

// anyOf waits until a replica of a service is heard, and returns its record.
func (s *adversary) anyOf(service string) *pb.Member {
	s.t.Helper()
	var found []*pb.Member
	s.until("a "+service+" is heard", func() bool {
		found = members.OfService(s.present(), service)
		return len(found) > 0
	})
	return found[0]
}

// peer is a copy of the record of a real replica of a service, with another id.
func (s *adversary) peer(service, id string) *pb.Member {
	c := proto.CloneOf(s.anyOf(service))
	c.Id, c.Ready, c.Call = id, true, 0
	return c
}

func (s *adversary) present() []*pb.Member {
	bucket, err := s.conn.EnsureBucket(s.t.Context(), 1, s.names.Bucket("members"), members.BucketTTL)
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := members.List(s.t.Context(), bucket)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// Records that nobody stands behind change no plan, and take no rows.
func TestForgedMembers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		forge func(s *adversary) (n int, one func(i int) *pb.Member)
	}{
		{"a host", func(s *adversary) (int, func(int) *pb.Member) {
			host := s.peer("expert", "expert-forged")
			return 1, func(int) *pb.Member { return host }
		}},
		{"another model's host", func(s *adversary) (int, func(int) *pb.Member) {
			host := s.peer("expert", "expert-forged")
			host.ModelHash++
			return 1, func(int) *pb.Member { return host }
		}},
		{"thousands of everything", func(s *adversary) (int, func(int) *pb.Member) {
			var like []*pb.Member
			for _, service := range []string{"expert", "gate", "aggregator", "attention", "tokenizer"} {
				like = append(like, s.peer(service, ""))
			}
			many := 2000
			if testkit.Race { // else they keep all services busy
				many = 200
			}
			return many, func(i int) *pb.Member {
				m := proto.CloneOf(like[i%len(like)])
				m.Id = m.Service + "-" + strconv.Itoa(i)
				return m
			}
		}},
		{"an old gate", func(s *adversary) (int, func(int) *pb.Member) {
			gate := s.peer("gate", "gate-forged")
			return 1, func(int) *pb.Member { return gate }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			s := newAdversary(t, 2)
			planned := s.planned()
			s.crowd(tc.forge(s))
			for range 10 {
				s.answers()
				time.Sleep(members.Interval / 2)
			}
			planned()
		})
	}
}

// Keys that somebody erases all the time make no member leave for long; members.TestErased wants
// that they make none leave.
func TestErasedMembers(t *testing.T) {
	s := newAdversary(t, 2)
	planned, all := s.planned(), s.present()
	times := 50
	if testkit.Race {
		times = 10
	}
	for range times {
		for _, m := range all {
			if err := s.conn.EraseKey(t.Context(), s.names.Bucket("members"), m.Id); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(members.Interval / 20)
		s.answers()
	}
	s.until("it is ready", func() bool { return s.y.Pipeline.Ready() == nil })
	planned()
}

// A bucket that somebody deletes is made again, and requests are served.
func TestDeletedBuckets(t *testing.T) {
	t.Parallel()
	s := newAdversary(t, 1)
	for _, kind := range []string{"leases", "members", "functions", "plans"} {
		if err := s.conn.JetStream().DeleteKeyValue(t.Context(), s.names.Bucket(kind)); err != nil {
			t.Fatal(err)
		}
		s.until(kind+" is made again", func() bool {
			_, err := s.conn.JetStream().KeyValue(t.Context(), s.names.Bucket(kind))
			return err == nil
		})
		s.answers()
	}
	s.until("there is a plan again", func() bool { return s.layer0() != nil })
	s.answers()
}
