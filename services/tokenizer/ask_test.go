package tokenizer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
)

const askBody = `{"request_id":"one","text":"hi","max_tokens":400}`

// mute makes the stream of prompts store without acknowledging.
func (r *rig) mute() {
	r.t.Helper()
	r.alter(r.d.Streams.Prompts().Name, func(c *jetstream.StreamConfig) { c.NoAck = true })
}

// An ask whose storing is not acknowledged has one end: its answer, if it was
// taken in; else an error, also when the stored copy comes to be taken in.
func TestUnacknowledgedAsk(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"named": askBody, "nameless": `{"text":"hi","max_tokens":400}`} {
		for _, taken := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, 0)
				s := r.replica()
				trying := make(chan context.CancelFunc, 1)
				s.storing = func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, giveUp := context.WithCancel(ctx)
					trying <- giveUp
					return ctx, giveUp
				}
				r.mute()
				release := r.hold(s, "")
				got := r.inbox()
				r.send(r.d.Subjects.Ask(), got.subject, []byte(body), nil)
				giveUp := <-trying
				r.eventually("it is stored", func() bool { return r.stored() > 0 })
				want := "internal"
				if !taken {
					giveUp()
				} else {
					release()
					request := r.someone()
					giveUp()
					r.eventually("nobody tries to store it any more", func() bool { return s.asks.Had() == 0 })
					r.append(r.claim(request), token(0), ending("stop"))
					want = ""
				}
				if c := got.end(); c.Error.GetCode() != want {
					t.Errorf("ended by %v", c)
				}
				if !taken {
					release()
				}
				r.eventually("the prompt is settled", r.settled)
				time.Sleep(100 * time.Millisecond)
				if ends := got.ends(); len(ends) != 1 {
					t.Errorf("%d ends: %v", len(ends), ends)
				}
			})
		}
	}
}

// An ask that is in hand when its tokenizer stops is stored as soon as that can be done,
// and else its caller is told to ask again: with its request, or without one.
func TestAskInHandOfWhoStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		stored     bool
	}{
		{"stored", askBody, true}, {"not stored", askBody, false},
		{"nameless, not stored", `{"text":"hi","max_tokens":400}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			s := New(r.deployment(), Config{MaxQueued: DefaultMaxQueued})
			s.storing = context.WithCancel // as long as it takes
			if s.lastAsks = testkit.Patience; !c.stored {
				s.lastAsks = time.Millisecond
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.eventually("the replica sees attention", func() bool { return s.notReady() == nil })
			prompts := r.d.Streams.Prompts()
			if err := r.d.Conn.JetStream().DeleteStream(r.ctx(), prompts.Name); err != nil {
				t.Fatal(err)
			}
			got := r.inbox()
			r.send(r.d.Subjects.Ask(), got.subject, []byte(c.body), nil)
			r.eventually("the ask is in hand", func() bool { return s.asks.Had() == 1 })
			var stopped sync.WaitGroup
			defer stopped.Wait()
			stopped.Go(func() {
				if err := s.Stop(r.ctx()); err != nil {
					t.Error(err)
				}
			})
			r.eventually("the replica stops", func() bool { return s.ctx.Err() != nil })
			want := "overloaded"
			if c.stored {
				if err := r.d.Conn.Ensure(r.ctx(), 1, prompts); err != nil {
					t.Fatal(err)
				}
				stopped.Wait()
				r.replica()
				r.append(r.claim("one"), token(0), ending("stop"))
				want = ""
			}
			if end := got.end(); end.Error.GetCode() != want || (want != "") != (end.Error.GetRetryAfter() > 0) {
				t.Errorf("ended by %v", end)
			}
		})
	}
}

// someone is the only request there is, when it is accepted.
func (r *rig) someone() (request string) {
	r.t.Helper()
	stream, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Tokens().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.eventually("a token log", func() bool {
		info, err := stream.Info(r.ctx(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			return false
		}
		for subject := range info.State.Subjects {
			request = subject[strings.LastIndexByte(subject, '.')+1:]
		}
		return request != ""
	})
	return request
}

// The ids that nameless asks get say nothing of each other: who knows one could
// read the others' answers, or have them taken for copies that were stored before.
func TestNamelessAsksAreUnrelated(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	before := map[string]bool{}
	for range 3 {
		got := r.inbox()
		r.send(r.d.Subjects.Ask(), got.subject, []byte(`{"text":"hi","deadline":"2020-01-01T00:00:00Z"}`), nil)
		id := got.end().RequestId
		for other := range before {
			if len(id) < 20 || id[:6] == other[:6] {
				t.Errorf("%q and %q", other, id)
			}
		}
		before[id] = true
	}
}

// Bad asks are refused without the durable path.
func TestAskRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	before := r.stored()
	for body, code := range map[string]string{
		"{": "bad_request", "{}": "bad_prompt", "\xff": "bad_prompt", `{"text":"x","request_id":"a.b"}`: "bad_request",
		`{"text":"x","top_p":2}`: "bad_request",
	} {
		got := r.inbox()
		r.send(r.d.Subjects.Ask(), got.subject, []byte(body), map[string][]string{"Content-Type": {"application/json"}})
		r.eventually("an answer to "+body, func() bool { return len(got.all()) > 0 })
		m := got.all()[0]
		if !strings.Contains(string(m.Data)+m.Header.Get("Switchyard-Error-Code"), code) {
			t.Errorf("%q: %s %v, want %s", body, m.Data, m.Header, code)
		}
	}
	if n := r.stored() - before; n != 0 {
		t.Errorf("%d were stored", n)
	}
}

func (r *rig) stored() uint64 {
	r.t.Helper()
	s, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Prompts().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// A prompt is not cancelled by a repeated ask that goes away, as an ask without a
// prompt is.
func TestRepeatDoesNotCancelPrompt(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.prompt(askBody)
	w := r.claim("one")
	r.append(w, token(0))
	again, alone := r.inbox(), r.inbox()
	r.send(r.d.Subjects.Ask(), again.subject, []byte(askBody), nil)
	r.eventually("the repeat's first chunk", func() bool { return len(again.chunks()) > 0 })
	again.leave()
	r.append(w, token(1)) // finds nobody
	r.send(r.d.Subjects.Ask(), alone.subject, []byte(`{"request_id":"two","text":"hi","max_tokens":400}`), nil)
	other, i := r.claim("two"), 0
	alone.leave()
	r.eventually("the end of what only the ask wants", func() bool {
		_ = other.Append(token(i)) // fails when the request is cancelled
		i++
		r.append(w, token(i+1))
		return r.terminal("two") != nil
	})
	if end := r.terminal("one"); end != nil {
		t.Errorf("ended by %v", end)
	}
	r.append(w, ending("stop"))
}

// An ask lives while one of its callers waits, and no longer.
func TestAskLivesWhileAnyoneWaits(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"first leaves first": {0, 1, 2}, "first leaves last": {2, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2)
			var readers []*reader
			for range order {
				reader := r.inbox()
				r.send(r.d.Subjects.Ask(), reader.subject, []byte(askBody), nil)
				readers = append(readers, reader)
				r.opened("one")
			}
			w, i := r.claim("one"), 0
			step := func() {
				_ = w.Append(token(i)) // fails when the request is cancelled
				i++
				time.Sleep(heldWithin / 5)
			}
			for _, who := range order {
				last := readers[who]
				before := len(last.chunks())
				r.eventually("chunks for the one who stays", func() bool { step(); return len(last.chunks()) > before+5 })
				if r.terminal("one") != nil {
					t.Fatalf("ended while reader %d waits", who)
				}
				last.leave()
			}
			r.eventually("the end", func() bool { step(); return r.terminal("one") != nil })
			if end := r.terminal("one"); end.FinishReason != "cancelled" {
				t.Errorf("ended by %v", end)
			}
		})
	}
}
