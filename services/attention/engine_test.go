package attention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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
// ended takes the work off the queue, too.
func TestLost(t *testing.T) {
	for _, tc := range []struct {
		err  error
		acks int
	}{{tokenlog.ErrStale, 0}, {tokenlog.ErrFinished, 1}} {
		b := newBench(t, 1, 8)
		s := b.request("r", 2, 10)
		b.add(s)
		b.start()
		b.drop(lostLog{"r", &logbook{}, tc.err}) // an earlier writer's
		b.drop(lostLog{"unknown", s.writer, tc.err})
		if s.ended || delivered(s).acks != 0 {
			t.Fatal("another's loss counted")
		}
		b.drop(lostLog{"r", s.writer, tc.err})
		b.land(0, 5, nil)
		if len(book(s).records) != 0 || delivered(s).acks != tc.acks || delivered(s).naks != 0 || b.released != 1 {
			t.Errorf("%v: %v, %+v, %d released", tc.err, book(s).records, delivered(s), b.released)
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
		if delivered(s).renewals != 1 {
			t.Errorf("sequence %d was renewed %d times", i, delivered(s).renewals)
		}
	}
}

// A replica whose lanes hang lets its claims run out.
func TestHang(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.step(5)
	b.start()
	b.heartbeat(time.Now()) // the first step counts
	b.heartbeat(time.Now()) // nothing since
	if n := delivered(s).renewals; n != 1 {
		t.Errorf("%d renewals, want 1", n)
	}
	b.busy[b.flying[0]].remote.waitingFlag.Store(true) // it is others that are slow
	b.heartbeat(time.Now())
	if n := delivered(s).renewals; n != 2 {
		t.Errorf("%d renewals, want 2", n)
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
				err := rapid.SampledFrom([]error{nil, nil, nil, errors.New("failed"), context.Canceled}).Draw(rt, "error")
				b.land(rapid.IntRange(0, len(b.flying)-1).Draw(rt, "which"), rapid.SampledFrom([]uint32{5, 9}).Draw(rt, "token"), err)
			},
			"cancel": func(rt *rapid.T) { b.cancel(&pb.Cancel{RequestId: pick(rt).seq.RequestId, Reason: "cancelled"}) },
			"lose": func(rt *rapid.T) {
				s := pick(rt)
				book(s).err = tokenlog.ErrStale
				b.drop(lostLog{s.seq.RequestId, s.writer, tokenlog.ErrStale})
			},
			"beat": func(rt *rapid.T) {
				pick(rt).deadline = time.Now()
				b.heartbeat(time.Now().Add(time.Second))
			},
			"": func(rt *rapid.T) { checkBooks(rt, b, all) },
		})
		for range 200 {
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
}
