package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func kind(r *pb.Record) string {
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		return map[bool]string{true: "L", false: "A"}[k.Accept.Lost]
	case *pb.Record_Claim:
		return fmt.Sprintf("C%d", r.Epoch)
	case *pb.Record_Token:
		return fmt.Sprint(k.Token.Index)
	case *pb.Record_Score:
		return fmt.Sprintf("S%d", k.Score.Position)
	case *pb.Record_Terminal:
		return "T"
	}
	return "?"
}

func TestLifeOfARequest(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	finished := make(chan struct{})
	w, history := r.claim(r.log, "r", WriterSettings{Finished: func() { close(finished) }})
	if kinds(history) != "A C1" || time.Since(history[1].Time).Abs() > time.Minute {
		t.Errorf("history %s", kinds(history))
	}
	appendAll(t, w, token(0), token(1), terminal("stop"))
	r.flush(w)
	<-finished
	<-w.Done()
	all := r.read("r")
	if kinds(all) != "A C1 0 1 T" || all[2].Record.Epoch != 1 {
		t.Errorf("log %s", kinds(all))
	}
	if err := w.Append(token(2)); !errors.Is(err, ErrFinished) {
		t.Errorf("append after the end: %v", err)
	}
	if err := r.log.Finish(r.ctx(), "r", &pb.Terminal{FinishReason: "cancelled"}); !errors.Is(err, ErrFinished) {
		t.Errorf("second end: %v", err)
	}
	if _, _, err := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{}); !errors.Is(err, ErrFinished) {
		t.Errorf("claim after the end: %v", err)
	}
}

func TestAcceptTwice(t *testing.T) {
	r := newRig(t)
	if existing, err := r.log.Accept(r.ctx(), "r", opening(7)); existing != nil || err != nil {
		t.Fatal(existing, err)
	}
	_, _, err := r.log.Claim(r.ctx(), "r", opening(7), WriterSettings{})
	if err != nil {
		t.Fatal(err)
	}
	existing, err := r.log.Accept(r.ctx(), "r", opening(8))
	if err != nil || existing.GetPromptSequence() != 7 {
		t.Errorf("existing %v, error %v", existing, err)
	}
	if opened, err := r.log.Opening(r.ctx(), "r"); err != nil || opened.GetPromptSequence() != 7 {
		t.Errorf("opened with %v, error %v", opened, err)
	}
}

func TestUnknown(t *testing.T) {
	r := newRig(t)
	_, _, claiming := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{})
	finishing := r.log.Finish(r.ctx(), "r", &pb.Terminal{FinishReason: "cancelled"})
	following := r.log.FollowRequest(r.ctx(), "r", nil)
	for _, err := range []error{claiming, finishing, following} {
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("error %v", err)
		}
	}
}

// losing returns settings that pass on why a log was lost.
func losing() (WriterSettings, <-chan error) {
	lost := make(chan error, 1)
	return WriterSettings{Lost: func(_ *Writer, err error) { lost <- err }}, lost
}

func TestStaleOwner(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*rig)
		want      error
		log       string
	}{
		"claimed": {func(r *rig) { r.claim(r.log, "r", WriterSettings{}) }, ErrStale, "A C1 0 C2"},
		"claimed by a peer": {func(r *rig) {
			w, _ := r.claim(r.log, "r", WriterSettings{})
			appendAll(r.t, w, token(1))
			r.flush(w)
		}, ErrStale, "A C1 0 C2 1"},
		"cancelled": {func(r *rig) { _ = r.log.Finish(r.ctx(), "r", &pb.Terminal{FinishReason: "cancelled"}) }, ErrFinished, "A C1 0 T"},
		"claimed, then done": {func(r *rig) {
			w, _ := r.claim(r.log, "r", WriterSettings{})
			appendAll(r.t, w, terminal("cancelled"))
			r.flush(w)
		}, ErrStale, "A C1 0 C2 T"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.accept("r")
			s, lost := losing()
			w, _ := r.claim(r.log, "r", s)
			appendAll(t, w, token(0))
			r.flush(w)
			c.meanwhile(r)
			for _, rec := range []*pb.Record{token(1), token(2), terminal("stop")} {
				_ = w.Append(rec) // fails once the loss is known
			}
			if err := <-lost; !errors.Is(err, c.want) || !errors.Is(w.Err(), c.want) {
				t.Errorf("lost by %v", err)
			}
			if err := w.Flush(r.ctx()); !errors.Is(err, c.want) {
				t.Errorf("flush: %v", err)
			}
			if err := w.Append(token(3)); !errors.Is(err, c.want) {
				t.Errorf("append: %v", err)
			}
			if got := kinds(r.read("r")); got != c.log {
				t.Errorf("log %s, want %s", got, c.log)
			}
		})
	}
}

// The record is stored and its acknowledgement lost with the connection.
func TestLostAck(t *testing.T) {
	r := newRig(t)
	p := newProxy(t, r.addr)
	faulty := New(r.connect(p.listen.Addr().String()), names, r.as("a"))
	has := func(want string) func() bool {
		return func() bool {
			all, _, err := r.log.Read(r.ctx(), "r", math.MaxUint64)
			return err == nil && kinds(all) == want
		}
	}
	lose := func(act func(), stored string) {
		t.Helper()
		p.loseAnswers()
		done := make(chan struct{})
		go func() { defer close(done); act() }()
		r.eventually("stored: "+stored, has(stored))
		p.cut()
		<-done
		if !has(stored)() {
			t.Errorf("log %s, want %s", kinds(r.read("r")), stored)
		}
	}
	lose(func() {
		if existing, err := faulty.Accept(r.ctx(), "r", opening(0)); existing != nil || err != nil {
			t.Errorf("accepting: %v, error %v", existing, err)
		}
	}, "A")
	w, _ := r.claim(faulty, "r", WriterSettings{})
	lose(func() { appendAll(t, w, token(0)); r.flush(w) }, "A C1 0")
	lose(func() { appendAll(t, w, token(1)); r.flush(w) }, "A C1 0 1")
	appendAll(t, w, token(2))
	r.flush(w)
	last := r.read("r")[4].Seq
	lose(func() {
		// What Finish does after reading, which would wait for its answer here.
		if _, err := faulty.put(r.ctx(), "r", terminal("cancelled"), last); err != nil {
			t.Errorf("finishing: %v", err)
		}
	}, "A C1 0 1 2 T")
}

func TestManyClaimers(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	var claiming sync.WaitGroup
	var stale atomic.Int32
	writers := make([]*Writer, 8)
	for i := range writers {
		claiming.Go(func() {
			l := New(r.conn, names, r.as(fmt.Sprint(i)))
			w, history, err := l.Claim(r.ctx(), "r", opening(0), WriterSettings{})
			if err != nil || history[len(history)-1].Record.Writer != fmt.Sprint(i) {
				t.Errorf("history %s, error %v", kinds(history), err)
				return
			}
			writers[i] = w
		})
	}
	claiming.Wait()
	for _, w := range writers {
		_, _ = w.Append(token(0)), w.Append(terminal("stop")) // fails once the loss is known
	}
	for _, w := range writers {
		if err := w.Flush(r.ctx()); err != nil {
			stale.Add(1)
		}
	}
	if got := kinds(r.read("r")); got != "A C1 C2 C3 C4 C5 C6 C7 C8 0 T" || stale.Load() != 7 {
		t.Errorf("log %s, %d stale", got, stale.Load())
	}
}

func TestRestartInTheMiddle(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	s, lost := losing()
	w, _ := r.claim(r.log, "r", s)
	want := []string{"A", "C1"}
	var followed atomic.Int32
	following, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.log.FollowRequest(following, "r", func(Entry) bool { followed.Add(1); return true }); following.Err() == nil {
			t.Errorf("following ended early: %v", err)
		}
	}()
	defer func() { stop(); <-done }()
	for i := range 300 {
		if i%100 == 50 {
			r.restart()
		}
		appendAll(t, w, token(i))
		want = append(want, fmt.Sprint(i))
	}
	r.flush(w)
	if got := kinds(r.read("r")); got != strings.Join(want, " ") {
		t.Errorf("log %s", got)
	}
	r.eventually("followed through the restarts", func() bool { return followed.Load() == 302 })
	select {
	case err := <-lost:
		t.Error(err)
	default:
	}
}

func TestFollowShard(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	shard := -1
	for i := range 8 {
		if strings.Contains(names.Subjects.Token("r"), fmt.Sprintf(".%d.", i)) {
			shard = i
		}
	}
	w, _ := r.claim(r.log, "r", WriterSettings{})
	appendAll(t, w, token(0), token(1))
	r.flush(w)
	from := r.read("r")[2].Seq
	ctx, cancel := context.WithCancel(r.ctx())
	defer cancel()
	var got []Entry
	var n atomic.Int32
	done := make(chan error)
	go func() {
		done <- r.log.FollowShard(ctx, shard, bus.Place{Sequence: from - 1}, func(request string, e Entry, err error) {
			if request != "r" || err != nil {
				t.Errorf("record of %s, error %v", request, err)
			}
			got = append(got, e)
			n.Add(1)
		})
	}()
	r.eventually("the old records", func() bool { return n.Load() == 2 })
	r.restart()
	appendAll(t, w, token(2), terminal("stop"))
	r.eventually("the new records", func() bool { return n.Load() == 4 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || kinds(got) != "0 1 2 T" {
		t.Errorf("followed %s, error %v", kinds(got), err)
	}
}

// Nothing is dropped while the server is away: the writer says that it is full,
// and when there is room again.
func TestFull(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	room := make(chan struct{}, 8)
	w, _ := r.claim(r.log, "r", WriterSettings{Room: func() { room <- struct{}{} }})
	r.srv.Shutdown()
	n := 0
	for ; !w.Full(); n++ {
		appendAll(t, w, token(n))
	}
	appendAll(t, w, token(n), terminal("stop")) // what was under way, and the end, still fit
	r.start()
	<-room
	r.flush(w)
	if got := len(r.read("r")); n != MaxUnwritten || w.Full() || got != 2+n+2 {
		t.Errorf("full after %d, still %v; %d records", n, w.Full(), got)
	}
}

// At the stream's bound nothing is dropped either: what is written afterwards
// follows what was written before.
func TestFullStream(t *testing.T) {
	r := newRig(t)
	small := names
	small.LogBytes = 64 << 10
	js := r.conn.JetStream()
	if err := js.DeleteStream(r.ctx(), names.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Ensure(r.ctx(), 1, small.Tokens()); err != nil {
		t.Fatal(err)
	}
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	r.put("ballast", make([]byte, 60<<10))
	n := 0
	for ; !w.Full(); n++ {
		appendAll(t, w, token(n))
		_ = w.Flush(r.short()) // at the bound it does not come back
	}
	appendAll(t, w, terminal("stop"))
	last, err := r.log.Last(r.ctx(), "ballast")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(r.ctx(), small.Tokens().Name)
	if err == nil {
		err = stream.DeleteMsg(r.ctx(), last)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.flush(w)
	all := r.read("r")
	if len(all) != n+3 || kind(all[n+1].Record) != fmt.Sprint(n-1) || kind(all[n+2].Record) != "T" {
		t.Errorf("%d tokens were made; log %s", n, kinds(all))
	}
}

// short ends soon.
func (r *rig) short() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	r.t.Cleanup(cancel)
	return ctx
}
