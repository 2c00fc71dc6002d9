package attention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/kvcache"
	"github.com/switchyard/switchyard/pkg/sampling"
	"github.com/switchyard/switchyard/pkg/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestLength(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 20, 3)
	b.add(s)
	for range 3 { // 20 rows of prompt, 8 at a time
		b.step(5)
	}
	if got := book(s).tokens(); !slices.Equal(got, []uint32{5}) {
		t.Fatalf("tokens %v after the prompt", got)
	}
	b.step(6)
	b.step(7)
	l := book(s)
	if !slices.Equal(l.tokens(), []uint32{5, 6, 7}) || l.end().GetFinishReason() != "length" {
		t.Errorf("%v", l.records)
	}
	for i, r := range l.records[:3] {
		if r.GetToken().Index != int32(i) {
			t.Errorf("token %d has index %d", i, r.GetToken().Index)
		}
	}
	if b.kv.Used() != 0 || b.released != 1 || len(b.sequences) != 0 || len(b.order) != 0 {
		t.Errorf("%d pages, %d slots, %d sequences are left", b.kv.Used(), b.taken-b.released, len(b.sequences))
	}
}

func TestStop(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.step(5)
	b.step(9)
	if l := book(s); l.end().GetFinishReason() != "stop" || !l.records[1].GetToken().Stop {
		t.Errorf("%v", l.records)
	}
}

// A cancelled sequence ends at once in its log; its pages stay until its lane is done.
func TestCancel(t *testing.T) {
	b := newBench(t, 1, 8)
	s, other := b.request("r", 2, 10), b.request("other", 2, 2)
	b.add(s)
	b.add(other)
	b.start()
	b.cancel(&pb.Cancel{RequestId: "r", Reason: "cancelled"})
	b.cancel(&pb.Cancel{RequestId: "r", Reason: "stop"})
	b.cancel(&pb.Cancel{RequestId: "unknown", Reason: "stop"})
	if got := book(s).end().GetFinishReason(); got != "cancelled" {
		t.Errorf("ended with %q", got)
	}
	if b.released != 0 {
		t.Error("freed under its lane")
	}
	b.land(0, 5, nil)
	if b.released != 1 || len(book(s).records) != 1 {
		t.Errorf("%d released, records %v", b.released, book(s).records)
	}
	if got := book(other).tokens(); !slices.Equal(got, []uint32{5}) {
		t.Errorf("the other has %v", got)
	}
	b.step(5)
	if b.released != 2 || b.kv.Used() != 0 {
		t.Errorf("%d released, %d pages used", b.released, b.kv.Used())
	}
}

func TestFailedStep(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.start()
	b.land(0, 5, errors.New("no such expert"))
	if e := book(s).end(); e.GetFinishReason() != "error" || e.Error.Code != "internal" || e.Error.Message != "no such expert" {
		t.Errorf("%v", e)
	}
	if b.released != 1 {
		t.Error("not released")
	}
}

// A fault in a microbatch of several ends only the request that has it again when
// each is tried alone; the others have the tokens they would have had.
func TestFaultySequence(t *testing.T) {
	b := realBench(t, 16)
	alone := serve(t, 16, 5, 4, "")
	good, bad, also := b.ask("r", 5, 4, ""), b.ask("bad", 6, 4, ""), b.ask("a", 5, 4, "")
	bad.ids[3] = 1 << 30 // its embedding is far outside the memory
	for _, s := range []*sequence{good, bad, also} {
		b.add(s)
	}
	for b.compute() {
	}
	if e := book(bad).end().GetError(); e.GetCode() != "internal" || !strings.Contains(e.GetMessage(), "panic") {
		t.Errorf("the faulty one ended with %v", e)
	}
	for _, s := range []*sequence{good, also} {
		if !same(book(s).records, alone) {
			t.Errorf("%s: %v\nwant %v", s.seq.RequestId, book(s).records, alone)
		}
	}
	if b.kv.Used() != 0 || len(b.order) != 0 {
		t.Errorf("%d pages, %d sequences are left", b.kv.Used(), len(b.order))
	}
}

// One that needs all pages is served under a stream of small ones without end,
// and those that wait leave at once when they are cancelled or late.
func TestLargeAmongSmall(t *testing.T) {
	b := newBench(t, 1, 64)
	b.hasPages(4)
	b.add(b.request("small", 2, 2))
	large, gone, late := b.request("large", 4*32-2, 2), b.request("gone", 2*32, 1), b.request("late", 3*32, 1)
	late.deadline = time.Now()
	for _, s := range []*sequence{large, gone, late} {
		b.add(s)
	}
	b.cancel(&pb.Cancel{RequestId: "gone", Reason: "cancelled"})
	b.heartbeat(time.Now().Add(time.Second))
	if b.line.Len() != 1 || book(gone).end().GetFinishReason() != "cancelled" || book(late).end().GetError().GetCode() != "deadline_exceeded" {
		t.Fatalf("%d wait; ended: %v, %v", b.line.Len(), book(gone).end(), book(late).end())
	}
	for i := 0; book(large).end() == nil; i++ {
		if i > 20 {
			t.Fatalf("%d small ones were served before the large one", i)
		}
		b.add(b.request(fmt.Sprint(i), 2, 2))
		b.step(5)
	}
}

// A step that a stopping replica gave up ends no request.
func TestStoppedStep(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.start()
	b.land(0, 5, fmt.Errorf("layer 0: %w", context.Canceled))
	if len(book(s).records) != 0 {
		t.Errorf("%v", book(s).records)
	}
	b.handOver(t.Context())
	if delivered(s).naks != 1 {
		t.Errorf("%+v", delivered(s))
	}
}

// A log that is lost ends the work on it without a word; one that another
// ended takes the work off the queue, too. Neither is renewed any more.
func TestLost(t *testing.T) {
	for _, tc := range []struct {
		err  error
		acks int
	}{{tokenlog.ErrStale, 0}, {tokenlog.ErrFinished, 1}} {
		b := newBench(t, 1, 8)
		s := b.request("r", 2, 10)
		b.add(s)
		b.start()
		b.drop(lostLog{"r", &logbook{}}) // an earlier writer's
		b.drop(lostLog{"unknown", s.writer})
		if s.ended || len(b.keeper.held) != 1 {
			t.Fatal("another's loss counted")
		}
		(&Service{}).lost(s, tc.err)
		b.drop(lostLog{"r", s.writer})
		b.land(0, 5, nil)
		if len(book(s).records) != 0 || delivered(s).acks != tc.acks || delivered(s).naks != 0 || b.released != 1 || len(b.keeper.held) != 0 {
			t.Errorf("%v: %v, %+v, %d released, %d held", tc.err, book(s).records, delivered(s), b.released, len(b.keeper.held))
		}
	}
}

// Work that came again goes on under the newest claim, and what the older one
// held is freed, also while a lane has it.
func TestOwnWorkAgain(t *testing.T) {
	for _, flying := range []bool{false, true} {
		b := newBench(t, 1, 8)
		old, again := b.request("r", 2, 10), b.request("r", 2, 10)
		old.epoch, again.epoch = 1, 2
		b.add(old)
		if flying {
			b.start()
		}
		b.add(again)
		if flying {
			b.land(0, 5, nil)
		}
		if b.released != 1 || len(book(old).records) != 0 || b.sequences["r"] != again {
			t.Errorf("in flight %v: %d released, %v", flying, b.released, book(old).records)
		}
		stale := b.request("r", 2, 10)
		stale.epoch = 1
		b.add(stale)
		b.step(9)
		if got := book(again).tokens(); !slices.Equal(got, []uint32{9}) || b.kv.Used() != 0 || b.released != 3 {
			t.Errorf("in flight %v: tokens %v, %d pages used, %d released", flying, got, b.kv.Used(), b.released)
		}
	}
}

// All that are late end in one heartbeat, all others keep their claims.
func TestHeartbeat(t *testing.T) {
	b := newBench(t, 1, 8)
	now := time.Now()
	var all []*sequence
	for i := range 6 {
		s := b.request(fmt.Sprint(i), 2, 10)
		if i%3 < 2 {
			s.deadline = now
		}
		b.add(s)
		all = append(all, s)
	}
	b.heartbeat(now.Add(time.Millisecond))
	for i, s := range all {
		if code := book(s).end().GetError().GetCode(); (code == "deadline_exceeded") != (i%3 < 2) {
			t.Errorf("sequence %d ended with %q", i, code)
		}
	}
}

// Work is renewed while its lane gets on or waits for others, and while the
// engine turns: a lane that hangs loses what it has, an engine that hangs all.
func TestHang(t *testing.T) {
	b := newBench(t, 2, 8)
	s, other, waiting := b.request("r", 2, 10), b.request("other", 2, 10), b.request("waits", 40*32, 1000)
	b.add(s)
	b.start()
	b.add(other)
	b.start()
	b.add(waiting) // for more pages than there are
	lane := s.delivery.lane.Load()
	if lane == nil || lane == other.delivery.lane.Load() {
		t.Fatal("each is to have a lane")
	}
	lane.pulse.begin()
	b.pulse.begin()
	renewed := func() (n [3]int) {
		for i, q := range []*sequence{s, other, waiting} {
			n[i], delivered(q).renewals = delivered(q).renewals, 0
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		before func()
		want   [3]int
	}{
		{"just begun", func() {}, [3]int{1, 1, 1}},
		{"stuck lane", func() {}, [3]int{0, 1, 1}},
		{"others are slow", func() { lane.remote.waitingFlag.Store(true) }, [3]int{1, 1, 1}},
		{"still they are", func() { b.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"a piece is done", func() { lane.remote.waitingFlag.Store(false); lane.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is slow", func() { lane.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is stuck", func() { lane.pulse.progress.Tick() }, [3]int{0, 0, 0}},
		{"it was not", func() { lane.pulse.progress.Tick(); b.append(s, &pb.Record{}) }, [3]int{1, 1, 1}},
	} {
		tc.before()
		b.keeper.renew()
		if got := renewed(); got != tc.want {
			t.Errorf("%s: renewed %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A sequence whose last token is in the log already only ends.
func TestRestoredAtTheEnd(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 1)
	s.take(sampling.Choice{ID: 5})
	b.add(s)
	if l := book(s); len(l.records) != 1 || l.end().GetFinishReason() != "length" || b.released != 1 {
		t.Errorf("%v, %d released", l.records, b.released)
	}
}

// A sequence whose log takes no records does not step, and does not keep others
// from it; it can be ended, and its pages are free at once.
func TestFullLog(t *testing.T) {
	for name, end := range map[string]func(*bench, *sequence){
		"cancelled": func(b *bench, s *sequence) { b.cancel(&pb.Cancel{RequestId: s.seq.RequestId, Reason: "cancelled"}) },
		"late": func(b *bench, s *sequence) {
			s.endBefore(0)
			b.heartbeat(time.Now().Add(time.Minute))
		},
		"room again": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1, 8)
			s, other := b.request("r", 2, 10), b.request("other", 2, 4)
			b.add(s)
			b.add(other)
			b.step(5)
			book(s).full = true
			for range 5 {
				b.step(5)
			}
			if len(book(s).tokens()) != 1 || len(book(other).tokens()) != 4 {
				t.Errorf("%d tokens, the other has %d", len(book(s).tokens()), len(book(other).tokens()))
			}
			if end == nil {
				book(s).full = false
				b.haveRoom()
				b.step(9)
			} else {
				end(b, s)
			}
			if b.kv.Used() != 0 || b.released != 2 || book(s).end() == nil {
				t.Errorf("%d pages used, %d slots given back, end %v", b.kv.Used(), b.released, book(s).end())
			}
		})
	}
}

// A record that cannot be written ends its sequence; nothing comes behind a gap.
func TestUnwritableRecord(t *testing.T) {
	for want, err := range map[string]error{
		"payload_too_large": &bus.TooLargeError{Size: 9, Limit: 8}, "internal": errors.New("no"),
	} {
		b := newBench(t, 1, 8)
		s := b.request("r", 2, 10)
		b.add(s)
		b.start()
		book(s).refused = err
		b.land(0, 5, nil)
		if e := book(s).end().GetError(); e.GetCode() != want || len(book(s).tokens()) != 0 || b.released != 1 {
			t.Errorf("%v, %v", e, book(s).records)
		}
	}
}

// A replica that is told to stop hands over what it has, as far as it is logged.
func TestRunHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, 8)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.run(ctx); close(done) }()
		s := b.request("r", 2, 10)
		b.admitted <- s
		mb := <-b.lanes[0].in
		if !b.owns(ctx, "r") || b.owns(ctx, "other") {
			t.Error("the engine does not know what it has")
		}
		mb.parts[0].sampled, mb.parts[0].choice.ID = true, 5
		b.finished <- mb
		<-b.lanes[0].in // the next step is under way
		cancel()
		<-done
		if got := book(s).tokens(); !slices.Equal(got, []uint32{5}) || book(s).end() != nil {
			t.Errorf("%v", book(s).records)
		}
		if delivered(s).naks != 1 || delivered(s).acks != 0 || book(s).flushed != 1 {
			t.Errorf("%+v, %d flushes", delivered(s), book(s).flushed)
		}
		if b.owns(ctx, "r") {
			t.Error("a stopped engine owns nothing")
		}
	})
}

// Whatever happens in whatever order: a log has one end and nothing after it,
// its tokens are numbered, and pages and slots are freed once.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, rapid.IntRange(1, 3).Draw(rt, "lanes"), rapid.IntRange(1, 20).Draw(rt, "rows"))
		b.hasPages(rapid.IntRange(2, 12).Draw(rt, "pages"))
		var all []*sequence
		pick := func(rt *rapid.T) *sequence {
			if len(all) == 0 {
				rt.Skip("no sequence")
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(rt, "sequence")]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				if len(all) == 20 {
					rt.Skip("enough")
				}
				id := fmt.Sprint(rapid.IntRange(0, 6).Draw(rt, "id"))
				s := b.request(id, rapid.IntRange(1, 30).Draw(rt, "prompt"), rapid.IntRange(1, 4).Draw(rt, "max"))
				s.epoch = uint64(rapid.IntRange(0, 30).Draw(rt, "epoch"))
				b.add(s)
				all = append(all, s)
			},
			"start": func(*rapid.T) { b.start() },
			"land": func(rt *rapid.T) {
				if len(b.flying) == 0 {
					rt.Skip("nothing in flight")
				}
				errs := []error{nil, nil, nil, errors.New("failed"), context.Canceled, &panicError{"fault"}}
				err := rapid.SampledFrom(errs).Draw(rt, "error")
				b.land(rapid.IntRange(0, len(b.flying)-1).Draw(rt, "which"), rapid.SampledFrom([]uint32{5, 9}).Draw(rt, "token"), err)
			},
			"cancel": func(rt *rapid.T) { b.cancel(&pb.Cancel{RequestId: pick(rt).seq.RequestId, Reason: "cancelled"}) },
			"lose": func(rt *rapid.T) {
				s := pick(rt)
				book(s).err = tokenlog.ErrStale
				b.drop(lostLog{s.seq.RequestId, s.writer})
			},
			"beat": func(rt *rapid.T) {
				pick(rt).deadline = time.Now()
				b.heartbeat(time.Now().Add(time.Second))
			},
			"": func(rt *rapid.T) { checkBooks(rt, b, all) },
		})
		for steps := 0; len(b.order) > 0 && steps < 2000; steps++ {
			b.step(9)
		}
		checkBooks(rt, b, all)
		if b.released != b.taken || b.kv.Used() != 0 || len(b.sequences)+len(b.order)+len(b.busy) != 0 {
			rt.Fatalf("%d of %d slots, %d pages, %d sequences are left", b.taken-b.released, b.taken, b.kv.Used(), len(b.sequences))
		}
	})
}

func checkBooks(t *rapid.T, b *bench, all []*sequence) {
	for _, s := range all {
		tokens := 0
		for i, r := range book(s).records {
			if r.GetTerminal() != nil && i != len(book(s).records)-1 {
				t.Fatalf("%s: records after the end: %v", s.seq.RequestId, book(s).records)
			}
			if tok := r.GetToken(); tok != nil {
				if tok.Index != int32(tokens) {
					t.Fatalf("%s: index %d, want %d", s.seq.RequestId, tok.Index, tokens)
				}
				tokens++
			}
		}
		if tokens > int(s.seq.MaxTokens) {
			t.Fatalf("%s: %d tokens of %d", s.seq.RequestId, tokens, s.seq.MaxTokens)
		}
	}
	flying := map[*sequence]bool{}
	for _, mb := range b.flying {
		for _, p := range mb.parts {
			if flying[p.s] {
				t.Fatalf("%s is in two microbatches", p.s.seq.RequestId)
			}
			flying[p.s] = true
		}
	}
	if held := b.taken - b.released; held != len(b.order) {
		t.Fatalf("%d slots are held by %d sequences", held, len(b.order))
	}
	pages, waiting := 0, 0
	for _, s := range b.order {
		if s.table == nil {
			waiting++
		} else {
			pages += kvcache.PagesFor(s.positions())
		}
	}
	if pages != b.kv.Used() || waiting != b.line.Len() {
		t.Fatalf("%d pages are held and %d used; %d sequences wait, %d in line", pages, b.kv.Used(), waiting, b.line.Len())
	}
}
