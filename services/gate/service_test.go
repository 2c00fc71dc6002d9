package gate

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// open is a deployment of the synthetic model on a server of the test's own.
func open(t *testing.T) *deployment.Deployment {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	quiet := slog.New(slog.DiscardHandler)
	conn, err := bus.Connect(t.Context(), bus.Config{}, bus.Settings{InProcess: srv, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := deployment.Open(t.Context(), deployment.Settings{
		Conn: conn, Model: m, Prefix: "switchyard", Hops: schemas.HopsCore, Wire: tensor.BF16, Telemetry: tel, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A group of which nothing is dispatched ends: its owner gets zeros.
func TestDispatchesNothing(t *testing.T) {
	d := open(t)
	blocks := make(chan *nats.Msg, 1)
	if _, err := d.Conn.Subscribe(d.Subjects.Block("attention-1"), "", func(m *nats.Msg) { blocks <- m }); err != nil {
		t.Fatal(err)
	}
	s := New(d, Config{})
	s.addresses = addresses{subjects: d.Subjects, hosts: &fakeRoster{steady: true}}
	s.routes = forward.Routes{K: 2, Expert: []int32{-1, -1, -1, -1, -1, -1}}
	took := &pb.GateTime{QueueNs: 1, ComputeNs: 2}
	h := hidden(3)
	if err := s.dispatch(t.Context(), h, s.split.split(h, &s.routes, &plan.Routes{}, nil), took, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-blocks:
		b, want := &pb.Block{}, zeros(tensor.BF16, h.Key, d.Model.Spec.Hidden)
		want.Gate, want.Key.Owner = took, "" // its subject names the owner
		if err := proto.Unmarshal(m.Data, b); err != nil || !proto.Equal(b, want) {
			t.Errorf("%v, %v", b, err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("no block")
	}
}
