package top

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hosts are members, and send samples of one row.
type hosts struct {
	t  *testing.T
	nc *nats.Conn
	l  listener
}

func startHosts(t *testing.T) *hosts {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	h := &hosts{t: t}
	if h.nc, err = nats.Connect("", nats.InProcessServer(srv)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.nc.Close)
	t.Cleanup(h.l.close)
	return h
}

func (h *hosts) follow(all ...Member) {
	h.t.Helper()
	if err := h.l.follow(h.nc, "load", all); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) send(model uint64) {
	h.t.Helper()
	body, err := proto.Marshal(&pb.LoadSample{
		Version: schemas.Version, Model: model, Host: "expert-1", Layer: 3, SpanMs: 1, Expert: []uint32{2}, Rows: []uint64{1},
	})
	if err == nil {
		err = h.nc.Publish("load", body)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) await(what string, ok func(*Snapshot) bool) {
	h.t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s := &Snapshot{}
		h.l.fill(s)
		if ok(s) {
			return
		}
		if time.Now().After(limit) {
			h.t.Fatalf("never: %s; got %+v", what, s)
		}
	}
}

// Loads are counted from when an expert host is here, and anew when it has
// another model.
func TestFollow(t *testing.T) {
	h := startHosts(t)
	h.follow(Member{Service: "gate", model: 7})
	h.await("nothing without a host", func(s *Snapshot) bool { return len(s.Layers) == 0 && s.Seconds == 0 })
	for model := range uint64(2) {
		of := Member{Service: "expert", model: 7 + model}
		h.follow(of)
		h.send(7 + model)
		h.follow(of)
		h.send(7 + model)
		h.send(99)
		h.await("two rows", func(s *Snapshot) bool {
			return len(s.Layers) == 1 && s.Layers[0].Layer == 3 && s.Layers[0].Rows[2] == 2 && s.RefusedSamples == 1 && s.Seconds > 0
		})
	}
}
