package members

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stage is a view and those whom it hears.
type stage struct {
	*View
	// call is what the planner's host, expert-p, calls in each renewal; 0: it does not.
	call uint64
	// honest answer the call; liars say what the planner's host says.
	honest, liars []string
}

// play lets time go by, with a renewal of everybody each Interval.
func (s *stage) play(d time.Duration) {
	for ; d > 0; d -= Interval {
		if s.call != 0 {
			s.call++
			s.put(&pb.Member{Id: "expert-p", Service: "expert", Call: s.call, Answer: s.Answer("expert-p")})
		}
		for _, id := range s.honest {
			s.put(&pb.Member{Id: id, Service: service(id), Answer: s.Answer(id)})
		}
		for _, id := range s.liars {
			s.put(&pb.Member{Id: id, Service: service(id), Answer: s.Answer("expert-p")})
		}
		for range Interval / tick {
			s.expire(tick)
		}
	}
}

func (s *stage) here() (ids []string) {
	for _, m := range s.Snapshot() {
		ids = append(ids, m.Id)
	}
	return ids
}

// Who does not answer is no member while somebody calls.
func TestRollCall(t *testing.T) {
	liar, a := "expert-liar", "expert-a"
	for _, tc := range []struct {
		name string
		run  func(s *stage)
		want []string
	}{
		{"nobody calls", func(s *stage) { s.honest, s.liars = []string{a}, []string{liar}; s.play(2 * callFor) }, []string{a, liar}},
		{"a liar comes", func(s *stage) {
			s.call, s.honest = 1, []string{a}
			s.play(TTL)
			s.liars = []string{liar}
			s.play(Interval)
		}, []string{a, "expert-p"}},
		{"a liar is there", func(s *stage) { s.liars = []string{liar}; s.play(TTL); s.call = 1; s.play(answerWithin + Interval) }, []string{"expert-p"}},
		{"one comes", func(s *stage) { s.call = 1; s.play(TTL); s.honest = []string{a}; s.play(Interval) }, []string{a, "expert-p"}},
		{"one stops answering", func(s *stage) {
			s.call, s.honest = 1, []string{a}
			s.play(TTL)
			s.honest, s.liars = nil, []string{a}
			s.play(answerWithin + Interval)
		}, []string{"expert-p"}},
		{"the planner pauses", func(s *stage) {
			s.call, s.honest = 1, []string{a, "expert-b"}
			s.play(TTL)
			s.call = 0
			s.play(answerWithin + callFor)
		}, []string{a, "expert-b"}},
		{"the only host is replaced", func(s *stage) {
			s.call = 1
			s.play(TTL)
			s.call = 0
			s.play(TTL)
			s.liars = []string{a}
			s.play(Interval)
		}, []string{a}},
		{"a gate calls", func(s *stage) {
			s.put(&pb.Member{Id: "gate-x", Service: "gate", Call: 5})
			s.liars = []string{liar}
			s.play(2 * TTL)
		}, []string{liar}},
		{"noise", func(s *stage) {
			s.call, s.liars = 1, []string{liar}
			s.put(&pb.Member{Id: "expert-p", Service: "expert"})
			for i := range uint64(2 * maxCalls) {
				s.put(&pb.Member{Id: "expert-p", Service: "expert", Call: 1000 + i})
			}
			s.play(Interval)
		}, []string{liar, "expert-p"}},
	} {
		s := &stage{View: still()}
		tc.run(s)
		if got := s.here(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		if n := len(s.roll.calls); n > maxCalls+1 {
			t.Errorf("%s: %d calls are kept", tc.name, n)
		}
	}
}

// A first call, and that of a new planner, is answered at once; others with
// the next renewal. One who is unknown makes a note.
func TestAskedAndNewcomers(t *testing.T) {
	s := &stage{View: still(), call: 1}
	for i, wait := range []time.Duration{0, Interval, Interval, 2 * TTL} {
		call := uint64(i + 10)
		for range wait / tick {
			s.expire(tick)
		}
		s.put(&pb.Member{Id: "expert-p", Service: "expert", Call: call})
		if asked, want := len(s.Asked()) == 1, i == 0 || i == 3; asked != want || s.Answer("a") != answerOf(call, "a") {
			t.Errorf("call %d: asked %v, want %v; the answer is %d", i, asked, want, s.Answer("a"))
		}
		for len(s.Asked()) > 0 {
			<-s.Asked()
		}
	}
	if len(s.Newcomers()) != 0 {
		t.Error("nobody has come")
	}
	s.put(&pb.Member{Id: "expert-n", Service: "expert"})
	if len(s.Newcomers()) != 1 || strings.Contains(ids(s.View), "expert-n") {
		t.Error("a newcomer is not noted, or believed")
	}
	s.put(&pb.Member{Id: "expert-n", Service: "expert", Answer: s.Answer("expert-n")})
	those, all := s.Answered("expert")
	if len(those) != 1 || those[0].Id != "expert-n" || all {
		t.Errorf("%v have answered, all %v; the planner's host has not", those, all)
	}
}

// A key that somebody erases is not a farewell.
func TestErased(t *testing.T) {
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(srv.Shutdown)
	kv := connect(t, srv)
	v := view(t, kv)
	ctx, stop := context.WithCancel(context.Background())
	announced := make(chan struct{})
	go func() { // far more often than others do, so that it is not missed on a slow machine
		defer close(announced)
		_ = Announce(ctx, kv, named("a"), Interval/40, nil)
	}()
	defer func() { stop(); <-announced }()
	await(t, v, "a")
	changed := v.Changed()
	for range 50 {
		if err := kv.Conn().EraseKey(t.Context(), bucket, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := kv.Conn().NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * tick)
	select {
	case <-changed:
		t.Error("an erased member was taken for one that left")
	default:
	}
}

// Records of another kind are nobody's, and thousands of them wake nobody.
func TestOtherKinds(t *testing.T) {
	v := still()
	v.kind, v.otherKinds = &schemas.Kind{ModelHash: 7}, map[string]*entry{}
	hear := func(m *pb.Member) {
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		v.receive(m.Id, body, false)
	}
	hear(&pb.Member{Id: "a", ModelHash: 7})
	changed := v.Changed()
	for i := range 5000 {
		hear(&pb.Member{Id: fmt.Sprintf("expert-%d", i), Service: "expert", ModelHash: 8, Ready: true})
	}
	if ids(v) != "a" {
		t.Errorf("members %q", ids(v))
	}
	select {
	case <-changed:
		t.Error("a change was reported")
	default:
	}
}

// Bytes from outside are a record within its bounds, or nothing.
func FuzzDecode(f *testing.F) {
	body, err := proto.Marshal(&pb.Member{Id: "a", Service: "gate", Device: "cpu", Stats: map[string]float64{"x": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a", body)
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		if m, err := decode(id, body); err == nil && (m.Id != id || !schemas.IsReplicaID(id) || len(m.Service) > maxName || len(m.Device) > maxDevice || len(m.Stats) > maxStats) {
			t.Errorf("%v of key %q", m, id)
		}
	})
}
