package planstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/natsserver"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is an empty bucket on a server of the test's own.
func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	conn, err := bus.Connect(t.Context(), bus.Config{}, bus.Settings{InProcess: srv, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	kv, err := conn.EnsureBucket(t.Context(), 1, "plans", 0)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// layers is a plan whose functions all run on one host.
func layers(host string, which ...uint32) (out []*pb.LayerPlan) {
	for _, l := range which {
		out = append(out, &pb.LayerPlan{Layer: l, Functions: []*pb.Function{{Id: "f", Experts: []uint32{0}, Hosts: []string{host}}}})
	}
	return out
}

func head(version, epoch uint64) *pb.PlanHead {
	return &pb.PlanHead{Version: version, Model: "demo", WriterEpoch: epoch, Reason: "test"}
}

func write(t *testing.T, kv jetstream.KeyValue, h *pb.PlanHead, ls []*pb.LayerPlan, revision uint64) *Plan {
	t.Helper()
	if err := Write(t.Context(), kv, h, ls, revision); err != nil {
		t.Fatal(err)
	}
	p, err := Read(t.Context(), kv)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNoPlan(t *testing.T) {
	p, err := Read(t.Context(), bucket(t))
	if p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	if p.Version() != 0 || p.RevisionOf() != 0 {
		t.Errorf("version %d, revision %d of no plan", p.Version(), p.RevisionOf())
	}
}

func TestWriteAndRead(t *testing.T) {
	kv := bucket(t)
	p := write(t, kv, head(1, 5), layers("a", 1, 3), 0)
	if p.Version() != 1 || len(p.Layers) != 2 || p.Layers[1].Layer != 3 || p.Layers[0].Functions[0].Hosts[0] != "a" || p.Head.Reason != "test" {
		t.Errorf("%v %v", p.Head, p.Layers)
	}
	// One with fewer layers: the rest of the old plan is not part of it.
	p = write(t, kv, head(2, 5), layers("b", 3), p.RevisionOf())
	if p.Version() != 2 || len(p.Layers) != 1 || p.Layers[0].Functions[0].Hosts[0] != "b" {
		t.Errorf("%v %v", p.Head, p.Layers)
	}
}

func TestConflict(t *testing.T) {
	kv := bucket(t)
	p := write(t, kv, head(1, 1), layers("a", 0), 0)
	for name, revision := range map[string]uint64{"none expected": 0, "older": p.Revision - 1, "newer": p.Revision + 7} {
		if err := Write(t.Context(), kv, head(2, 2), layers("b", 0), revision); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
}

// A writer that lost its lease meanwhile has overwritten a layer: nobody takes
// the mixture for a plan, and the next plan mends it.
func TestStaleWriter(t *testing.T) {
	kv := bucket(t)
	old := write(t, kv, head(1, 1), layers("a", 0, 1), 0)
	write(t, kv, head(2, 2), layers("b", 0, 1), old.RevisionOf())
	if err := Write(t.Context(), kv, head(2, 1), layers("c", 0), old.RevisionOf()); !errors.Is(err, ErrConflict) {
		t.Fatalf("%v, want ErrConflict", err)
	}
	p, err := Read(t.Context(), kv)
	if err == nil || p == nil || p.Version() != 2 {
		t.Fatalf("%v, %v; want the head and an error", p, err)
	}
	if p = write(t, kv, head(3, 2), layers("b", 0, 1), p.RevisionOf()); p.Layers[0].Functions[0].Hosts[0] != "b" {
		t.Errorf("%v", p.Layers)
	}
}

func TestHalfWritten(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(ctx context.Context, kv jetstream.KeyValue) error
		says  string
		head  bool // the head is returned beside the error
	}{
		{"newer layer", func(ctx context.Context, kv jetstream.KeyValue) error {
			return put(ctx, kv, "1", &pb.LayerPlan{Layer: 1, Version: 2, WriterEpoch: 1})
		}, "layer 1: it has version 2", true},
		{"no layer", func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Delete(ctx, "1") }, "layer 1", true},
		{"unreadable layer", func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, "0", []byte("\xff"))
			return err
		}, "decoding the plan of layer 0", true},
		{"unreadable head", func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, HeadKey, []byte("\xff"))
			return err
		}, "decoding the plan's head", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kv := bucket(t)
			write(t, kv, head(1, 1), layers("a", 0, 1), 0)
			if err := tc.spoil(t.Context(), kv); err != nil {
				t.Fatal(err)
			}
			p, err := Read(t.Context(), kv)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			if (p != nil) != tc.head {
				t.Errorf("plan %v", p)
			}
		})
	}
}

func put(ctx context.Context, kv jetstream.KeyValue, key string, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = kv.Put(ctx, key, body)
	return err
}

// follow sends what Follow gives; it ends with the test.
func follow(t *testing.T, kv jetstream.KeyValue) <-chan *Plan {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	plans, done := make(chan *Plan, 16), make(chan struct{})
	go func() {
		defer close(done)
		Follow(ctx, kv, slog.New(slog.DiscardHandler), func(p *Plan) { plans <- p })
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
	kv := bucket(t)
	p := write(t, kv, head(1, 1), layers("a", 0), 0)
	plans := follow(t, kv)
	if got := next(t, plans); got.Version() != 1 {
		t.Errorf("version %d", got.Version())
	}
	p = write(t, kv, head(2, 1), layers("b", 0), p.RevisionOf())
	if got := next(t, plans); got.Version() != 2 || got.Layers[0].Functions[0].Hosts[0] != "b" {
		t.Errorf("%v", got.Layers)
	}
	// One that is not newer is passed over.
	again := write(t, kv, head(2, 1), layers("c", 0), p.RevisionOf())
	write(t, kv, head(3, 1), layers("d", 0), again.RevisionOf())
	if got := next(t, plans); got.Version() != 3 || got.Layers[0].Functions[0].Hosts[0] != "d" {
		t.Errorf("version %d, %v", got.Version(), got.Layers)
	}
}

// A follower that begins before there is a plan, and meets a broken one first.
func TestFollowMends(t *testing.T) {
	kv := bucket(t)
	plans := follow(t, kv)
	p := write(t, kv, head(1, 1), layers("a", 0), 0)
	if err := kv.Delete(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	write(t, kv, head(2, 1), layers("b", 0), p.RevisionOf())
	for next(t, plans).Version() != 2 {
	}
}
