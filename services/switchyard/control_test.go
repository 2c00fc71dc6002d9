package main

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/client"
	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// siege is a pipeline whose shared state somebody with too many rights writes to.
type siege struct {
	*questioner
	t     *testing.T
	y     *yard
	conn  *bus.Conn
	names schemas.Streams
	plans jetstream.KeyValue
}

func besiege(t *testing.T, hosts int) *siege {
	t.Helper()
	y := startYard(t, "../../pkg/model/testdata/golden/mixtral", forward.WireBF16, schemas.HopsUnacked, hosts)
	conn, err := y.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	n := y.settings.node
	s := &siege{t: t, y: y, conn: conn, names: schemas.Streams{Subjects: schemas.NewSubjects(n.prefix, n.modelName())}}
	s.questioner = &questioner{client: client.New(conn.NATS(), client.Settings{Prefix: n.prefix, Model: n.modelName()}), vocab: n.model.Spec.Vocab}
	if s.plans, err = conn.EnsureBucket(t.Context(), 1, s.names.Bucket("plans"), 0); err != nil {
		t.Fatal(err)
	}
	awaitHosts(t, conn, s.names, n.model, hosts)
	return s
}

// head is the plan's head as it lies there, nil if nobody can read it.
func (s *siege) head() *pb.PlanHead {
	entry, err := s.plans.Get(s.t.Context(), "head")
	h := &pb.PlanHead{}
	if err != nil || proto.Unmarshal(entry.Value(), h) != nil {
		return nil
	}
	return h
}

func (s *siege) put(key string, m proto.Message) {
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
func (s *siege) answers() {
	s.t.Helper()
	if _, err := s.sampled(s.t.Context(), 1); err != nil {
		s.t.Error(err)
	}
}

// join starts another replica of a service, as far as that it receives.
func (s *siege) join(service string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	n := s.y.settings.node
	conn, traffic, err := n.connect(ctx, service)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	d, err := n.deploy(ctx, service, conn, traffic)
	if err != nil {
		s.t.Fatal(err)
	}
	one := s.y.settings.make(service, d)
	if err := one.Start(ctx); err != nil {
		s.t.Errorf("another %s does not start: %v", service, err)
	}
	if err := one.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *siege) until(what string, ok func() bool) {
	s.t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// Whatever is written in the place of the plan, requests are served, replicas
// join, and the planner puts a plan there again that goes on.
func TestForgedPlans(t *testing.T) {
	s := besiege(t, 1)
	streams := s.streams()
	for _, tc := range []struct {
		name  string
		spoil func(good *pb.PlanHead)
	}{
		{"undecodable head", func(*pb.PlanHead) { s.write("head", "\xff\xff") }},
		{"deleted head", func(*pb.PlanHead) {
			if err := s.plans.Delete(t.Context(), "head"); err != nil {
				t.Fatal(err)
			}
		}},
		{"undecodable layer", func(*pb.PlanHead) { s.write("0", "\xff\xff") }},
		{"last version", func(good *pb.PlanHead) { s.forge(good, math.MaxUint64, good.Layers) }},
		{"layers without experts", func(good *pb.PlanHead) {
			layers := good.Layers
			for l := range uint32(60) {
				layers = append(layers, 100+l)
			}
			s.forge(good, good.Version+1, layers)
		}},
	} {
		good := s.head()
		tc.spoil(good)
		s.join("gate")
		s.join("expert")
		s.answers()
		s.until(tc.name+" is replaced", func() bool {
			h := s.head()
			return h != nil && h.Version > good.Version && h.Version < math.MaxUint32 && len(h.Layers) == len(good.Layers)
		})
		s.answers()
	}
	if n := s.streams(); n != streams {
		t.Errorf("%d streams were %d", n, streams)
	}
}

func (s *siege) write(key, body string) {
	s.t.Helper()
	if _, err := s.plans.Put(s.t.Context(), key, []byte(body)); err != nil {
		s.t.Fatal(err)
	}
}

// forge writes a whole plan of another version: that of layer 0 is every layer's.
func (s *siege) forge(good *pb.PlanHead, version uint64, layers []uint32) {
	s.t.Helper()
	entry, err := s.plans.Get(s.t.Context(), "0")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range layers {
		lp := &pb.LayerPlan{}
		if err := proto.Unmarshal(entry.Value(), lp); err != nil {
			s.t.Fatal(err)
		}
		lp.Layer, lp.Version, lp.WriterEpoch = l, version, good.WriterEpoch
		s.put(strconv.Itoa(int(l)), lp)
	}
	h := proto.CloneOf(good)
	h.Version, h.Layers = version, layers
	s.put("head", h)
}

func (s *siege) streams() (n int) {
	for range s.conn.JetStream().StreamNames(s.t.Context()).Name() {
		n++
	}
	return n
}
