package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A cancelled sequence ends at once in its log; its pages stay until its worker is done.
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
		t.Error("freed under its worker")
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
	closing, open := b.leave()
	handOver(t.Context(), slog.New(slog.DiscardHandler), closing, open)
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
		b.drop(lostLog{request: "r", writer: &logbook{}}) // an earlier writer's
		b.drop(lostLog{request: "unknown", writer: s.writer})
		if s.ended || !b.renewed(s) {
			t.Fatal("another's loss counted")
		}
		b.ender.lost(s, tc.err)
		b.drop(lostLog{request: "r", writer: s.writer})
		b.land(0, 5, nil)
		if len(book(s).records) != 0 || delivered(s).acks != tc.acks || delivered(s).naks != 0 || b.released != 1 || b.renewed(s) {
			t.Errorf("%v: %v, %+v, %d released", tc.err, book(s).records, delivered(s), b.released)
		}
	}
}

// Work that came again goes on under the newest claim, and what the older one
// held is freed, also while a worker has it.
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
		if b.released != 1 || len(book(old).records) != 0 || b.own.byRequest["r"] != again {
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
	var all []*Sequence
	for i := range 6 {
		s := b.request(fmt.Sprint(i), 2, 10)
		if i%3 < 2 {
			s.deadline = b.clock
		}
		b.add(s)
		all = append(all, s)
	}
	b.later(time.Millisecond)
	for i, s := range all {
		if code := book(s).end().GetError().GetCode(); (code == "deadline_exceeded") != (i%3 < 2) {
			t.Errorf("sequence %d ended with %q", i, code)
		}
	}
}

// A sequence whose log takes no records does not step, and does not keep others
// from it; it can be ended, and its pages are free at once.
func TestFullLog(t *testing.T) {
	for name, end := range map[string]func(*bench, *Sequence){
		"cancelled": func(b *bench, s *Sequence) { b.cancel(&pb.Cancel{RequestId: s.seq.RequestId, Reason: "cancelled"}) },
		"late": func(b *bench, s *Sequence) {
			s.endBefore(0)
			b.later(time.Minute)
		},
		"no room for too long": func(b *bench, s *Sequence) {
			_ = s.writer.Append(&pb.Record{Kind: &pb.Record_Terminal{Terminal: noRoom(tokenlog.ErrNoRoom)}}) // as the writer does
			b.drop(lostLog{request: "r", writer: s.writer, full: tokenlog.ErrNoRoom})
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

// A log that takes no record any more, the end neither, ends its sequence all the same.
func TestUnwritableEnd(t *testing.T) {
	for _, err := range []error{&bus.TooLargeError{Size: 9, Limit: 8}, errors.New("no")} {
		b := newBench(t, 1, 8)
		s := b.request("r", 2, 10)
		b.add(s)
		b.start()
		book(s).err = err
		b.land(0, 5, nil)
		if !s.ended || b.released != 1 || s.end.GetTimings() == nil {
			t.Errorf("%v: ended %v, %d released, %v", err, s.ended, b.released, s.end)
		}
	}
}

// A replica that is told to stop hands over what it has, as far as it is logged.
func TestRunHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, 8)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx, nil); close(done) }()
		s := b.request("r", 2, 10)
		b.admitted <- s
		mb := <-b.workers[0].in
		if !b.Owns(ctx, "r") || b.Owns(ctx, "other") {
			t.Error("the engine does not know what it has")
		}
		mb.parts[0].choices = []sampling.Choice{{ID: 5}}
		b.finished <- mb
		<-b.workers[0].in // the next step is under way
		cancel()
		<-done
		if got := book(s).tokens(); !slices.Equal(got, []uint32{5}) || book(s).end() != nil {
			t.Errorf("%v", book(s).records)
		}
		if delivered(s).naks != 1 || delivered(s).acks != 0 || book(s).flushed != 1 {
			t.Errorf("%+v, %d flushes", delivered(s), book(s).flushed)
		}
		if b.Owns(ctx, "r") {
			t.Error("a stopped engine owns nothing")
		}
	})
}

// A step's token is in the log while the next step is held. Where the log refuses the token, whoever waits for the
// sequence's pages steps at once.
func TestRunWritesAtOnce(t *testing.T) {
	for name, refused := range map[string]error{"taken": nil, "refused": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 1, 1)
				b.hasPages(1)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { b.Run(ctx, nil); close(done) }()
				s, waits := b.request("r", 1, 10), b.request("waits", 1, 10)
				b.admitted <- s
				b.admitted <- waits
				mb := <-b.workers[0].in
				mb.parts[0].choices = []sampling.Choice{{ID: 5}}
				book(s).refused, book(s).full = refused, refused != nil // a full log's sequence does not step
				b.finished <- mb
				synctest.Wait()
				next, want := s, []uint32{5}
				if refused != nil {
					next, want = waits, nil
				}
				if got := book(s).tokens(); !slices.Equal(got, want) {
					t.Errorf("the log has %v", book(s).records)
				}
				select {
				case mb := <-b.workers[0].in:
					if mb.parts[0].s != next {
						t.Errorf("%s steps", mb.parts[0].s.seq.RequestId)
					}
				default:
					t.Error("nothing steps")
				}
				cancel()
				<-done
			})
		})
	}
}

// A sequence that becomes a long one is computed anew, once.
func TestBecomesLong(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 5)
	s.isLong = func(length int) bool { return length > 3 }
	b.add(s)
	var rows []int
	for !s.ended {
		b.start()
		rows = append(rows, b.flying[0].parts[0].rows)
		b.land(0, 5, nil)
	}
	if want := []int{2, 1, 4, 1, 1}; !slices.Equal(rows, want) {
		t.Errorf("steps had %v rows, want %v", rows, want)
	}
	if got := book(s).tokens(); len(got) != 5 {
		t.Errorf("tokens %v", got)
	}
}

// The keeper of sequences hears which worker has each, and that the engine writes records.
func TestWatched(t *testing.T) {
	b := newBench(t, 2, 8)
	s, other, waiting := b.request("r", 2, 10), b.request("other", 2, 10), b.request("waits", 70*32, 1)
	b.add(s)
	b.start()
	b.add(other)
	b.start()
	b.add(waiting) // for more pages than there are
	if has := s.delivery.Worker(); has == nil || has == other.delivery.Worker() || waiting.delivery.Worker() != nil {
		t.Error("each of the two in flight is to have a worker of its own, and the third none")
	}
	before := b.pulse.Progress.Done()
	if b.journal.append(s, &pb.Record{}); b.pulse.Progress.Done() == before {
		t.Error("a record is no progress")
	}
	b.land(0, 5, nil)
	if s.delivery.Worker() != nil {
		t.Error("its step is done, and it has a worker")
	}
}
