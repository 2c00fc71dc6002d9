package planstore

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is an empty bucket on a server of the test's own.
func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	kv, err := testserver.Connect(t).EnsureBucket(t.Context(), 1, "plans", 0)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

var settings = Settings{Kind: schemas.Kind{ModelHash: 7, NumericClass: "k", Wire: "bf16"}, MoELayers: []int{1, 3}, Experts: 1}

func store(t *testing.T) *Store { return New(bucket(t), settings) }

// layers is a plan whose functions all run on one host.
func layers(host string) (out []*pb.LayerPlan) {
	for _, l := range []uint32{1, 3} {
		f := &pb.Function{Id: plan.FunctionID(int(l), []uint32{0}), Experts: []uint32{0}, Hosts: []string{host}}
		out = append(out, &pb.LayerPlan{Layer: l, Functions: []*pb.Function{f}})
	}
	return out
}

func head(epoch uint64) *pb.PlanHead {
	return &pb.PlanHead{Model: "demo", WriterEpoch: epoch, Reason: "test"}
}

func (s *Store) write(t *testing.T, h *pb.PlanHead, ls []*pb.LayerPlan, old *Plan) *Plan {
	t.Helper()
	if err := s.Write(t.Context(), h, ls, old); err != nil {
		t.Fatal(err)
	}
	p, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func host(p *Plan) string { return p.Layers[0].Functions[0].Hosts[0] }

func TestNoPlan(t *testing.T) {
	p, err := store(t).Read(t.Context())
	if p != nil || err != nil || p.Version() != 0 {
		t.Errorf("%v of version %d, %v", p, p.Version(), err)
	}
}

func TestWriteAndRead(t *testing.T) {
	s := store(t)
	p := s.write(t, head(5), layers("a"), nil)
	if p.Version() != 1 || len(p.Layers) != 2 || p.Layers[1].Layer != 3 || host(p) != "a" || p.Head.Reason != "test" || p.Table.Version != 1 {
		t.Errorf("%v %v", p.Head, p.Layers)
	}
	if p = s.write(t, head(5), layers("b"), p); p.Version() != 2 || host(p) != "b" || schemas.KindOf(p.Head) != settings.Kind {
		t.Errorf("%v %v", p.Head, p.Layers)
	}
}

func TestConflict(t *testing.T) {
	s := store(t)
	p := s.write(t, head(1), layers("a"), nil)
	older, newer := *p, *p
	older.revision--
	newer.revision += 7
	for name, old := range map[string]*Plan{"none expected": nil, "older": &older, "newer": &newer} {
		if err := s.Write(t.Context(), head(2), layers("b"), old); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
}

// A writer that lost its lease meanwhile has overwritten a layer: nobody takes
// the mixture for a plan, and the next plan mends it.
func TestStaleWriter(t *testing.T) {
	s := store(t)
	old := s.write(t, head(1), layers("a"), nil)
	s.write(t, head(2), layers("b"), old)
	if err := s.Write(t.Context(), head(1), layers("c")[:1], old); !errors.Is(err, ErrConflict) {
		t.Fatalf("%v, want ErrConflict", err)
	}
	p, err := s.Read(t.Context())
	if !errors.Is(err, ErrIllegal) || p.Version() != 2 {
		t.Fatalf("%v, %v; want the head and an error", p, err)
	}
	if p = s.write(t, head(2), layers("b"), p); p.Version() != 3 || host(p) != "b" {
		t.Errorf("%v %v", p.Head, p.Layers)
	}
}

// Whatever is in the place of a plan is no plan, and replaced by one whose
// version is larger than each before.
func TestIllegal(t *testing.T) {
	forged := func(change func(*pb.PlanHead)) func(*testing.T, jetstream.KeyValue) {
		return func(t *testing.T, kv jetstream.KeyValue) {
			h := head(1)
			h.Version, h.ModelHash, h.NumericClass, h.Wire, h.Layers = 2, 7, "k", "bf16", []uint32{1, 3}
			change(h)
			for _, l := range layers("evil") {
				l.Version, l.WriterEpoch = h.Version, h.WriterEpoch
				put(t, kv, layerKey(l.Layer), l)
			}
			put(t, kv, HeadKey, h)
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(*testing.T, jetstream.KeyValue)
		says  string
	}{
		{"newer layer", func(t *testing.T, kv jetstream.KeyValue) {
			put(t, kv, "1", &pb.LayerPlan{Layer: 1, Version: 2, WriterEpoch: 1})
		}, "layer 1 of version 2"},
		{"no layer", func(t *testing.T, kv jetstream.KeyValue) { erase(t, kv, "1") }, "layer 1 is not there"},
		{"unreadable layer", func(t *testing.T, kv jetstream.KeyValue) { putBytes(t, kv, "3", "\xff") }, "decoding layer 3"},
		{"unreadable head", func(t *testing.T, kv jetstream.KeyValue) { putBytes(t, kv, HeadKey, "\xff") }, "decoding the head"},
		{"empty head", func(t *testing.T, kv jetstream.KeyValue) { putBytes(t, kv, HeadKey, "") }, "version 0"},
		{"deleted head", func(t *testing.T, kv jetstream.KeyValue) { erase(t, kv, HeadKey) }, ""},
		{"last version", forged(func(h *pb.PlanHead) { h.Version = math.MaxUint64 }), "version 18446744073709551615"},
		{"version of the future", forged(func(h *pb.PlanHead) { h.Version = 1000 }), "version 1000"},
		{"another model", forged(func(h *pb.PlanHead) { h.ModelHash++ }), "model 0000000000000008"},
		{"another class", forged(func(h *pb.PlanHead) { h.NumericClass = "x" }), "kernels x"},
		{"another wire", forged(func(h *pb.PlanHead) { h.Wire = "f32" }), "wire f32"},
		{"more layers", forged(func(h *pb.PlanHead) { h.Layers = make([]uint32, 60) }), "60 layers"},
		{"a layer twice", forged(func(h *pb.PlanHead) { h.Layers = []uint32{1, 1} }), "there twice"},
		{"a layer without experts", forged(func(h *pb.PlanHead) { h.Layers = []uint32{1, 2} }), "layer 2 is not there"},
		{"unnamed function", func(t *testing.T, kv jetstream.KeyValue) {
			l := layers("evil")[0]
			l.Version, l.WriterEpoch, l.Functions[0].Id = 1, 1, "a.b"
			put(t, kv, "1", l)
		}, `function "a.b"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := store(t)
			good := s.write(t, head(1), layers("a"), nil)
			tc.spoil(t, s.kv)
			bad, err := s.Read(t.Context())
			if tc.says == "" && (bad != nil || err != nil) {
				t.Errorf("%v, %v; want none", bad, err)
			}
			if tc.says != "" && (!errors.Is(err, ErrIllegal) || bad == nil || bad.Table != nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%v, %v; want ErrIllegal with %q", bad, err, tc.says)
			}
			p := s.write(t, head(2), layers("b"), bad)
			if p.Version() <= good.Version() || p.Version() > p.revision || host(p) != "b" {
				t.Errorf("version %d of revision %d", p.Version(), p.revision)
			}
		})
	}
}

// The largest version that can be forged is one that others can follow.
func TestForgedVersionIsFollowed(t *testing.T) {
	s := store(t)
	p := s.write(t, head(1), layers("a"), nil)
	for range 3 {
		next := p.revision + uint64(len(settings.MoELayers)) + 1
		h := proto.CloneOf(p.Head)
		h.Version = next
		for _, l := range layers("evil") {
			l.Version, l.WriterEpoch = next, h.WriterEpoch
			put(t, s.kv, layerKey(l.Layer), l)
		}
		put(t, s.kv, HeadKey, h)
		forged, err := s.Read(t.Context())
		if err != nil || forged.Version() != next {
			t.Fatalf("%v, %v; want version %d", forged, err, next)
		}
		if p = s.write(t, head(2), layers("b"), forged); p.Version() != next+1 {
			t.Errorf("version %d after %d", p.Version(), next)
		}
	}
}

func put(t *testing.T, kv jetstream.KeyValue, key string, m proto.Message) {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	putBytes(t, kv, key, string(body))
}

func putBytes(t *testing.T, kv jetstream.KeyValue, key, body string) {
	t.Helper()
	if _, err := kv.Put(t.Context(), key, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func erase(t *testing.T, kv jetstream.KeyValue, key string) {
	t.Helper()
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// follow sends what Follow gives; it ends with the test.
func follow(t *testing.T, s *Store) <-chan *Plan {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	plans, done := make(chan *Plan, 16), make(chan struct{})
	go func() {
		defer close(done)
		s.Follow(ctx, slog.New(slog.DiscardHandler), func(p *Plan) { plans <- p })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return plans
}

// next is the next plan that a follower got.
func next(t *testing.T, plans <-chan *Plan) *Plan {
	t.Helper()
	select {
	case p := <-plans:
		return p
	case <-time.After(30 * time.Second):
		t.Fatal("no plan came")
		return nil
	}
}

// A follower gets the plan that is there and each newer one, whole, and none twice.
func TestFollow(t *testing.T) {
	s := store(t)
	p := s.write(t, head(1), layers("a"), nil)
	plans := follow(t, s)
	if got := next(t, plans); got.Version() != 1 {
		t.Errorf("version %d", got.Version())
	}
	p = s.write(t, head(1), layers("b"), p)
	if got := next(t, plans); got.Version() != 2 || host(got) != "b" {
		t.Errorf("%v", got.Layers)
	}
	// One that is not newer is passed over.
	put(t, s.kv, HeadKey, p.Head)
	again, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, head(1), layers("d"), again)
	if got := next(t, plans); got.Version() != 3 || host(got) != "d" {
		t.Errorf("version %d, %v", got.Version(), got.Layers)
	}
}

// A follower that begins before there is a legal plan waits for one.
func TestFollowMends(t *testing.T) {
	s := store(t)
	putBytes(t, s.kv, HeadKey, "\xff")
	plans := follow(t, s)
	bad, err := s.Read(t.Context())
	if !errors.Is(err, ErrIllegal) {
		t.Fatal(err)
	}
	p := s.write(t, head(1), layers("a"), bad)
	erase(t, s.kv, "1")
	p = s.write(t, head(1), layers("b"), p)
	for next(t, plans).Version() != p.Version() {
	}
	erase(t, s.kv, HeadKey)
	p = s.write(t, head(1), layers("c"), nil)
	for next(t, plans).Version() != p.Version() {
	}
}

// A head from outside that is believed can be continued and has the model's layers.
func FuzzHead(f *testing.F) {
	body, err := proto.Marshal(&pb.PlanHead{Version: 1, ModelHash: 7, NumericClass: "k", Wire: "bf16", Layers: []uint32{1, 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		h := &pb.PlanHead{}
		if proto.Unmarshal(body, h) != nil {
			return
		}
		p := &Plan{Head: h, revision: 10}
		if err := New(nil, settings).checkHead(p); err == nil && (p.Version() == 0 || p.Version() > 10 || len(h.Layers) != 2) {
			t.Errorf("%v is legal", h)
		}
	})
}
