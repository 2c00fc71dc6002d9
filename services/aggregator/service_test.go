package aggregator

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		Conn: conn, Model: m, Prefix: "switchyard", Hops: schemas.HopsUnacked, Wire: tensor.BF16, Telemetry: tel, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Small partials that claim large groups cost what they carry.
func TestClaimsOverTheWire(t *testing.T) {
	d := open(t)
	s := New(d)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := heap()
	const messages = 300
	row := tensor.Encode(tensor.BF16, make([]float32, d.Model.Spec.Hidden), d.Model.Spec.Hidden, nil)
	for i := range messages {
		p := &pb.Partial{TopK: 2, Row: []uint32{0}, Slot: []uint32{0}, Tensor: row, Key: &pb.Key{
			Version: schemas.Version, Model: d.Identity.Model, Owner: "attention-1", Step: uint64(i), Rows: 8192, Shard: s.id,
		}}
		if err := d.Hop.Send(t.Context(), d.Subjects.Partial(s.id), p); err != nil {
			t.Fatal(err)
		}
	}
	for limit := time.Now().Add(20 * time.Second); s.openGroups() < messages && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	if n, grown := s.openGroups(), heap()-before; n != messages || grown > messages*16<<10 {
		t.Errorf("%d open groups have taken %d bytes", n, grown)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func (s *Service) openGroups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups.open)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
