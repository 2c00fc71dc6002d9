package tokenlog

import (
	"context"
	"errors"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// put stores any bytes in a request's log.
func (r *rig) put(request string, data []byte) {
	r.t.Helper()
	if _, err := r.conn.JetStream().Publish(r.ctx(), names.Subjects.Token(request), data); err != nil {
		r.t.Fatal(err)
	}
}

// foreign are messages that have nothing to do in a log; the first once ended
// a request as its terminal record, the second made its log unreadable.
func foreign(t testing.TB) [][]byte {
	return [][]byte{
		bytesOf(t, &pb.Chunk{RequestId: "r", Index: 4, Text: "x", FinishReason: "stop", Usage: &pb.Usage{PromptTokens: 1}}),
		{0xff, 0xff},
		nil,
		bytesOf(t, tokenIn(1, 0, 1<<20)),
		bytesOf(t, claimOf(1<<64-1)),
	}
}

// Whatever others write into a log, its owner goes on behind it, and so does the next one.
func TestNoiseInALog(t *testing.T) {
	r := newRig(t)
	r.put("r", []byte("before the acceptance"))
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	for i, data := range foreign(t) {
		r.put("r", data)
		appendAll(t, w, token(i))
		r.flush(w)
	}
	r.put("r", []byte{0xff})
	w, history := r.claim(r.log, "r", WriterSettings{})
	if got := kinds(history); got != "A C1 0 1 2 3 4 C2" {
		t.Errorf("the next owner reads %s", got)
	}
	r.put("r", []byte{0xff})
	appendAll(t, w, token(5), terminal("stop"))
	r.flush(w)
	r.put("r", []byte{0xff})
	if got := kinds(r.read("r")); got != "A C1 0 1 2 3 4 C2 5 T" || r.passed.Load() == 0 {
		t.Errorf("log %s, %d passed over", got, r.passed.Load())
	}
	if _, _, err := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{}); !errors.Is(err, ErrFinished) {
		t.Errorf("claim after the end: %v", err)
	}
}

// A log that is not whole is never gone on with; it can be ended, and its id is not free.
func TestNotWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(*rig)
		log    string
		reuse  error
	}{
		"beginning gone": {func(r *rig) { r.purge("r", 2) }, "L T", ErrNotWhole},
		"gap": {func(r *rig) {
			r.put("r", bytesOf(r.t, tokenIn(1, 4, 5)))
		}, "A C1 0 1 T", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.accept("r")
			w, _ := r.claim(r.log, "r", WriterSettings{})
			appendAll(t, w, token(0), token(1))
			r.flush(w)
			tc.damage(r)
			if _, _, err := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{}); !errors.Is(err, ErrNotWhole) {
				t.Errorf("claim: %v", err)
			}
			if existing, err := r.log.Accept(r.ctx(), "r", opening(1)); !errors.Is(err, tc.reuse) || tc.reuse == nil && existing == nil {
				t.Errorf("accepting another under its id: %v, error %v", existing, err)
			}
			if err := r.log.End(r.ctx(), "r", opening(1), failure("internal").GetTerminal()); tc.reuse == nil && !errors.Is(err, ErrForeign) {
				t.Errorf("another request's end: %v", err)
			}
			if err := r.log.End(r.ctx(), "r", opening(0), failure("internal").GetTerminal()); err != nil && !errors.Is(err, ErrForeign) {
				t.Error(err)
			}
			if got := kinds(r.read("r")); got != tc.log {
				t.Errorf("log %s, want %s", got, tc.log)
			}
		})
	}
}

// Whoever follows a log without its beginning is told so, whether it has ended or not.
func TestFollowNotWhole(t *testing.T) {
	for name, ended := range map[string]bool{"running": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.accept("r")
			w, _ := r.claim(r.log, "r", WriterSettings{})
			appendAll(t, w, token(0))
			if ended {
				appendAll(t, w, terminal("cancelled"))
			}
			r.flush(w)
			r.purge("r", 2)
			if err := r.log.FollowRequest(r.ctx(), "r", func(Entry) bool { return true }); !errors.Is(err, ErrNotWhole) {
				t.Errorf("followed to %v", err)
			}
		})
	}
}

// A log is read from the record that it was packed into, also where a server that stopped
// in the middle of removing the others brought its end back without its beginning.
func TestPackedBehindRemains(t *testing.T) {
	r := newRig(t)
	packed, _ := r.ended("r")
	r.purge("r", 2)
	r.put("r", bytesOf(t, &pb.Record{Kind: &pb.Record_Packed{Packed: packed}}))
	var followed []Entry
	err := r.log.FollowRequest(r.ctx(), "r", func(e Entry) bool {
		followed = append(followed, e)
		return len(followed) < 5
	})
	if got := kinds(followed); got != "T A 0 1 T" || err != nil {
		t.Errorf("followed %s, error %v", got, err)
	}
}

// ended is the log of a request that was cancelled after two tokens, as one record to be
// packed into, and the sequence of its last record.
func (r *rig) ended(request string) (packed *pb.Packed, last uint64) {
	r.t.Helper()
	r.accept(request)
	w, _ := r.claim(r.log, request, WriterSettings{})
	appendAll(r.t, w, token(0), token(1), terminal("cancelled"))
	r.flush(w)
	packer := Packer{Limit: 1 << 20}
	for _, e := range r.read(request) {
		packer.Add(e.Record)
		last = e.Seq
	}
	return packer.Packed(), last
}

// purge removes a log's first n records, as age does.
func (r *rig) purge(request string, n int) {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.ctx(), names.Tokens().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range r.read(request)[:n] {
		if err := s.DeleteMsg(r.ctx(), e.Seq); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A log that is gone is opened again only to be ended, once.
func TestEndOfALogThatIsGone(t *testing.T) {
	r := newRig(t)
	for range 2 {
		err := r.log.End(r.ctx(), "r", opening(0), failure("internal").GetTerminal())
		if err != nil && !errors.Is(err, ErrFinished) {
			t.Error(err)
		}
	}
	if got := kinds(r.read("r")); got != "L T" {
		t.Errorf("log %s", got)
	}
}

func TestFruitless(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	for range maxFruitless - 1 {
		r.claim(r.log, "r", WriterSettings{})
	}
	w, _ := r.claim(r.log, "r", WriterSettings{})
	if _, _, err := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{}); !errors.Is(err, ErrFruitless) {
		t.Errorf("claim: %v", err)
	}
	appendAll(t, w, token(0))
	r.flush(w)
	r.claim(r.log, "r", WriterSettings{}) // it made a token
}

// The stream is deleted under an owner and a reader, and made again: the owner writes again what it had.
func TestStreamMadeAnew(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	appendAll(t, w, token(0))
	r.flush(w)
	got, seen := make(chan string, 1), make(chan struct{}, 8)
	go func() {
		var read []Entry
		err := r.log.FollowRequest(r.ctx(), "r", func(e Entry) bool {
			read = append(read, e)
			seen <- struct{}{}
			return e.Record.GetTerminal() == nil
		})
		if err != nil {
			t.Error(err)
		}
		got <- kinds(read)
	}()
	for range 3 {
		<-seen
	}
	if err := r.conn.JetStream().DeleteStream(r.ctx(), names.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	appendAll(t, w, token(1))
	if err := r.conn.Ensure(r.ctx(), 1, names.Tokens()); err != nil {
		t.Fatal(err)
	}
	appendAll(t, w, terminal("cancelled"))
	r.flush(w)
	if got := <-got; got != "A C1 0 C1 1 T" {
		t.Errorf("the reader has %s", got)
	}
	if got := kinds(r.read("r")); got != "A C1 0 1 T" {
		t.Errorf("log %s", got)
	}
}

// One record takes the place of all, for readers under way, new ones, owners and repeats.
func TestPack(t *testing.T) {
	r := newRig(t)
	packed, end := r.ended("r")
	r.put("r", []byte("noise behind the end"))
	for range 2 {
		if err := r.log.Pack(r.ctx(), "r", packed, end); err != nil {
			t.Fatal(err)
		}
	}
	state, err := r.conn.State(r.ctx(), names.Tokens().Name)
	if got := kinds(r.read("r")); got != "A 0 1 T" || err != nil || state.First != state.Last {
		t.Errorf("log %s in %+v, error %v", got, state, err)
	}
	var followed []Entry
	err = r.log.FollowRequest(r.ctx(), "r", func(e Entry) bool { followed = append(followed, e); return len(followed) < 4 })
	if kinds(followed) != "A 0 1 T" || err != nil {
		t.Errorf("followed %s, error %v", kinds(followed), err)
	}
	_, _, claiming := r.log.Claim(r.ctx(), "r", opening(0), WriterSettings{})
	finishing := r.log.Finish(r.ctx(), "r", terminal("cancelled").GetTerminal())
	if !errors.Is(claiming, ErrFinished) || !errors.Is(finishing, ErrFinished) {
		t.Errorf("claim: %v, end: %v", claiming, finishing)
	}
	if existing, err := r.log.Accept(r.ctx(), "r", opening(1)); existing.GetMaxTokens() != 5000 || err != nil {
		t.Errorf("repeat: %v, error %v", existing, err)
	}
}

// A record that the server would not take is refused, and the log goes on.
func TestTooLarge(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	large := scoreIn(1, 0)
	large.GetScore().Logits = make([]float32, 3<<20)
	if err := w.Append(large); err == nil {
		t.Error("taken")
	}
	appendAll(t, w, failure("payload_too_large"))
	if err := w.Flush(context.Background()); err != nil {
		t.Error(err)
	}
}
