package top

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// hosts are members, and send samples.
var names = schemas.NewSubjects("top", "demo")

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
	if h.nc, err = nats.Connect("", nats.Timeout(testkit.Patience), nats.InProcessServer(srv)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.nc.Close)
	t.Cleanup(h.l.close)
	return h
}

func (h *hosts) follow(all ...Member) {
	h.t.Helper()
	if err := h.l.follow(h.nc, names, all); err != nil {
		h.t.Fatal(err)
	}
}

// send says that a host has computed a row, and so many in all.
func (h *hosts) send(model uint64, host string, total uint64) {
	h.t.Helper()
	body, err := proto.Marshal(&pb.LoadSample{
		Version: schemas.Version, Model: model, Host: host, Layer: 3, SpanMs: 1,
		Expert: []uint32{2}, Rows: []uint64{1}, Total: []uint64{total},
	})
	if err == nil {
		err = h.nc.Publish(names.Load(), body)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) await(what string, ok func(*Snapshot) bool) {
	h.t.Helper()
	for limit := time.Now().Add(testkit.Patience); ; time.Sleep(time.Millisecond) {
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

// Totals are kept from when an expert host is here, and anew when it has another
// model.
func TestFollow(t *testing.T) {
	h := startHosts(t)
	h.follow(Member{Service: "gate", model: 7})
	h.await("nothing without a host", func(s *Snapshot) bool { return len(s.Layers) == 0 && s.Seconds == 0 })
	for model := range uint64(2) {
		of := Member{ID: "expert-1", Service: "expert", model: 7 + model}
		h.follow(of)
		h.send(7+model, "expert-1", 5)
		h.follow(of)
		h.send(7+model, "expert-1", 9)
		h.send(99, "expert-1", 1)
		h.await("nine rows, five of them heard", func(s *Snapshot) bool {
			return len(s.Layers) == 1 && s.Layers[0].Layer == 3 && s.Layers[0].Rows[2] == 9 && s.Layers[0].heard[2] == 5 &&
				s.RefusedSamples == 1 && s.Seconds > 0
		})
	}
}

// Hosts are asked until they have told what they had computed when they were
// first seen, but not for ever.
func TestAsk(t *testing.T) {
	h := startHosts(t)
	asks, err := h.nc.SubscribeSync(names.LoadAsk())
	if err != nil {
		t.Fatal(err)
	}
	host := func(id string, rows float64) Member {
		return Member{ID: id, Service: "expert", model: 7, Stats: map[string]float64{members.HostRows: rows}}
	}
	for _, tt := range []struct {
		name     string
		tells    string // a host, all that it has computed before
		members  []Member
		asks     int // in all, after it
		complete bool
	}{
		{"nothing computed", "", []Member{host("a", 0)}, 0, false},
		{"computed since", "", []Member{host("a", 3)}, 0, false},
		{"a host that has computed", "", []Member{host("a", 3), host("b", 9)}, 1, false},
		{"another told", "a", []Member{host("a", 3), host("b", 9)}, 2, false},
		{"told", "b", []Member{host("a", 3), host("b", 20)}, 2, true},
		{"another came", "", []Member{host("b", 20), host("c", 1)}, 3, false},
		{"it went", "", []Member{host("b", 20)}, 3, true},
		{"all went", "", nil, 3, true},
	} {
		if tt.tells != "" {
			h.send(7, tt.tells, 9)
			h.await(tt.tells+" heard", func(*Snapshot) bool { return h.l.tally.Rows(tt.tells) == 9 })
		}
		h.follow(tt.members...)
		if n := h.pending(asks); n != tt.asks || h.l.complete() != tt.complete {
			t.Errorf("%s: %d asks, complete %v; want %d, %v", tt.name, n, h.l.complete(), tt.asks, tt.complete)
		}
	}
	for range 2 * maxAsks {
		h.follow(host("liar", 1e300))
	}
	if n := h.pending(asks); n != 3+maxAsks {
		t.Errorf("a liar had %d asks, want %d", n-3, maxAsks)
	}
}

// pending is how many messages have come.
func (h *hosts) pending(sub *nats.Subscription) int {
	h.t.Helper()
	if err := h.nc.Flush(); err != nil {
		h.t.Fatal(err)
	}
	n, _, err := sub.Pending()
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// A look whose time is over before it could begin says so: nobody has interrupted it.
func TestLookTooLate(t *testing.T) {
	h := startHosts(t)
	js, err := jetstream.New(h.nc)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(h.nc, js, schemas.Streams{Subjects: names})
	defer r.Close()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := r.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
