package expert

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// compute sends a row to each expert of a function of layer 0 that is served.
func (h *host) compute(experts ...uint32) {
	h.t.Helper()
	work := dispatch(h.d.Wire, h.d.Shape.Hidden, experts...)
	work.Key.Model, work.Function = h.d.Identity.Model, plan.FunctionID(0, experts, plan.Routed)
	before := h.member().GetStats()["rows_total"]
	if err := h.d.Hop.Send(h.t.Context(), h.d.Subjects.Expert(0, work.Function), work); err != nil {
		h.t.Fatal(err)
	}
	h.await("rows computed", func() bool { return h.member().GetStats()["rows_total"] == before+float64(len(experts)) })
}

// listen gets what the host says about loads.
func (h *host) listen() (next func() *pb.LoadSample) {
	h.t.Helper()
	samples := make(chan *nats.Msg, 16)
	sub, err := h.d.Conn.NATS().ChanSubscribe(h.d.Subjects.Load(), samples)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return func() *pb.LoadSample {
		h.t.Helper()
		s := &pb.LoadSample{}
		select {
		case m := <-samples:
			if err := proto.Unmarshal(m.Data, s); err != nil {
				h.t.Fatal(err)
			}
		case <-time.After(testkit.Patience):
			h.t.Fatal("no sample")
		}
		return s
	}
}

// What the experts computed is said once, by layer, and all of it to who asks,
// on the subject of loads whatever he names.
func TestLoadSamples(t *testing.T) {
	h := startHost(t, 0)
	next := h.listen()
	h.plan([]uint32{0, 2})
	h.awaitWarm(0, 2)
	h.compute(0, 2)
	run(t, h.sendLoads)
	s := next()
	if s.Host != h.id || s.Model != h.d.Identity.Model || s.Layer != 0 || s.SpanMs == 0 ||
		!slices.Equal(s.Expert, []uint32{0, 2}) || !slices.Equal(s.Rows, []uint64{1, 1}) || !slices.Equal(s.Total, []uint64{1, 1}) {
		t.Errorf("got %v", s)
	}
	elsewhere, err := h.d.Conn.NATS().SubscribeSync("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = elsewhere.Unsubscribe() }()
	for range 3 {
		if err := h.d.Conn.NATS().PublishRequest(h.d.Subjects.LoadAsk(), "elsewhere", []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if s = next(); !slices.Equal(s.Expert, []uint32{0, 2}) || !slices.Equal(s.Rows, []uint64{0, 0}) || !slices.Equal(s.Total, []uint64{1, 1}) {
		t.Errorf("asked, told %v", s)
	}
	if n, _, err := elsewhere.Pending(); err != nil || n != 0 {
		t.Errorf("%d answers to the subject of an ask: %v", n, err)
	}
	h.compute(0, 2)
	for s = next(); s.Rows[0] == 0; s = next() { // a tick came between the asks
	}
	if !slices.Equal(s.Rows, []uint64{1, 1}) || !slices.Equal(s.Total, []uint64{2, 2}) {
		t.Errorf("computed again, told %v", s)
	}
}

// The host's entry among the members has one size however many experts it has
// and has computed with.
func TestHeartbeatSize(t *testing.T) {
	h := startHost(t, 0)
	size := func(experts ...uint32) (int, []string) {
		h.plan(experts)
		h.awaitWarm(experts...)
		h.compute(experts...)
		m := proto.CloneOf(h.member())
		m.Answer, m.Call = 0, 0 // numbers of any length
		return proto.Size(m), slices.Sorted(maps.Keys(m.Stats))
	}
	one, names := size(1)
	all, same := size(0, 1, 2, 3)
	if one != all || !slices.Equal(names, same) {
		t.Errorf("%d bytes with one expert, %d with four: %v, %v", one, all, names, same)
	}
}
