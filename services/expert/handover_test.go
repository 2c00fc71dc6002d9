package expert

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// leavingHost is one that leaves, as its other rooms and the members see it.
type leavingHost struct {
	empty, restless, draining bool
	others                    []*pb.Member
}

func (h *leavingHost) Any() bool   { return !h.empty }
func (h *leavingHost) RestNoMore() { h.restless = true }
func (h *leavingHost) Drain()      { h.draining = true }

func (h *leavingHost) Snapshot() []*pb.Member {
	return append([]*pb.Member{{Id: "here", Service: "expert", Draining: h.draining}}, h.others...)
}

func (h *leavingHost) handover() Handover { return Handover{Presence: h, Functions: h, Members: h} }

// A host leaves when nobody sends to it, or nobody else could do its work.
func TestNeeded(t *testing.T) {
	gate := &pb.Member{Id: "g", Service: "gate"}
	other := &pb.Member{Id: "there", Service: "expert"}
	leaving := &pb.Member{Id: "there", Service: "expert", Draining: true}
	for _, c := range []struct {
		name  string
		all   []*pb.Member
		empty bool
		want  bool
	}{
		{"gates still send here", []*pb.Member{gate, other}, false, true},
		{"no gate", []*pb.Member{other}, false, false},
		{"no other host", []*pb.Member{gate}, false, false},
		{"the other host leaves too", []*pb.Member{gate, leaving}, false, false},
		{"no function is here", []*pb.Member{gate, other}, true, false},
	} {
		h := &leavingHost{draining: true, empty: c.empty, others: c.all}
		if got := h.handover().needed(h.Snapshot()); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A host that leaves says so, and waits for the gates for a while.
func TestRun(t *testing.T) {
	gate, other := &pb.Member{Id: "g", Service: "gate"}, &pb.Member{Id: "there", Service: "expert"}
	for _, c := range []struct {
		name  string
		goes  time.Duration // the functions
		takes time.Duration
	}{
		{"others take over", time.Second, time.Second + handoverPoll}, {"nobody does", time.Hour, handoverWithin},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &leavingHost{others: []*pb.Member{gate, other}}
				gone := time.Now().Add(c.goes)
				run := h.handover()
				run.Functions = until{h, gone}
				began := time.Now()
				run.Run(t.Context())
				if took := time.Since(began); took > c.takes || took < c.takes-handoverPoll || !h.draining || !h.restless {
					t.Errorf("took %v; it drains: %v, nothing rests: %v", took, h.draining, h.restless)
				}
			})
		})
	}
}

// until is a host whose functions go at some time.
type until struct {
	*leavingHost
	gone time.Time
}

func (u until) Any() bool { return time.Now().Before(u.gone) }
