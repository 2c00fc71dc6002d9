package expert

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

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

// What the experts computed is said once, by layer.
func TestLoadSamples(t *testing.T) {
	h := startHost(t, 0)
	samples := make(chan *nats.Msg, 16)
	sub, err := h.d.Conn.NATS().ChanSubscribe(h.d.Subjects.Load(), samples)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	h.plan([]uint32{0, 2})
	h.awaitWarm(0, 2)
	h.compute(0, 2)
	run(t, h.sendLoads)
	select {
	case m := <-samples:
		s := &pb.LoadSample{}
		err := proto.Unmarshal(m.Data, s)
		if err != nil || s.Host != h.id || s.Model != h.d.Identity.Model || s.Layer != 0 || s.SpanMs == 0 ||
			!slices.Equal(s.Expert, []uint32{0, 2}) || !slices.Equal(s.Rows, []uint64{1, 1}) {
			t.Errorf("got %v, %v", s, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no sample")
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
