package intake_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// mute makes the stream of prompts store without acknowledging.
func mute(r *rig.Rig) {
	r.T.Helper()
	r.Alter(r.D.Streams.Prompts().Name, func(c *jetstream.StreamConfig) { c.NoAck = true })
}

// An ask whose storing is not acknowledged has one end: its answer, if it was
// taken in; else an error, also when the stored copy comes to be taken in.
func TestUnacknowledgedAsk(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"named": rig.AskBody, "nameless": `{"text":"hi","max_tokens":400}`} {
		for _, taken := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t, 0)
				s := r.Replica()
				trying := make(chan context.CancelFunc, 1)
				s.Intake.Asks.Storing(func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, giveUp := context.WithCancel(ctx)
					trying <- giveUp
					return ctx, giveUp
				})
				mute(r)
				release := r.Hold(s, "")
				got := r.Inbox()
				r.Send(r.D.Subjects.Ask(), got.Subject, []byte(body), nil)
				giveUp := <-trying
				r.Eventually("it is stored", func() bool { return storedPrompts(r) > 0 })
				want := "internal"
				if !taken {
					giveUp()
				} else {
					release()
					request := someRequest(r)
					giveUp()
					r.Eventually("nobody tries to store it any more", func() bool { n, _ := s.Intake.Asks.InHand(); return n == 0 })
					r.Append(r.Claim(request), rig.Token(0), rig.Ending("stop"))
					want = ""
				}
				if c := got.End(); c.Error.GetCode() != want {
					t.Errorf("ended by %v", c)
				}
				if !taken {
					release()
				}
				r.Eventually("the prompt is settled", r.Settled)
				time.Sleep(100 * time.Millisecond)
				if ends := got.Ends(); len(ends) != 1 {
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
		{"stored", rig.AskBody, true}, {"not stored", rig.AskBody, false},
		{"nameless, not stored", `{"text":"hi","max_tokens":400}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, 0)
			s := r.Unstarted(r.Deployment())
			s.Intake.Asks.Storing(context.WithCancel) // as long as it takes
			s.Intake.Asks.LastAsks(testkit.Patience)
			if !c.stored {
				s.Intake.Asks.LastAsks(time.Millisecond)
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.SeesAttention(s)
			prompts := r.D.Streams.Prompts()
			if err := r.D.Conn.JetStream().DeleteStream(r.Ctx(), prompts.Name); err != nil {
				t.Fatal(err)
			}
			got := r.Inbox()
			r.Send(r.D.Subjects.Ask(), got.Subject, []byte(c.body), nil)
			r.Eventually("the ask is in hand", func() bool { n, _ := s.Intake.Asks.InHand(); return n == 1 })
			var stopped sync.WaitGroup
			defer stopped.Wait()
			stopped.Go(func() {
				if err := s.Stop(r.Ctx()); err != nil {
					t.Error(err)
				}
			})
			r.Eventually("the replica stops", func() bool { return s.Intake.Stopping() })
			want := "overloaded"
			if c.stored {
				if err := r.D.Conn.Ensure(r.Ctx(), 1, prompts); err != nil {
					t.Fatal(err)
				}
				stopped.Wait()
				r.Replica()
				r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
				want = ""
			}
			if end := got.End(); end.Error.GetCode() != want || (want != "") != (end.Error.GetRetryAfter() > 0) {
				t.Errorf("ended by %v", end)
			}
		})
	}
}

// someone is the only request there is, when it is accepted.
func someRequest(r *rig.Rig) (request string) {
	r.T.Helper()
	stream, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Tokens().Name)
	if err != nil {
		r.T.Fatal(err)
	}
	r.Eventually("a token log", func() bool {
		info, err := stream.Info(r.Ctx(), jetstream.WithSubjectFilter(">"))
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
	r := rig.New(t, 1)
	before := map[string]bool{}
	for range 3 {
		got := r.Inbox()
		r.Send(r.D.Subjects.Ask(), got.Subject, []byte(`{"text":"hi","deadline":"2020-01-01T00:00:00Z"}`), nil)
		id := got.End().RequestId
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
	r := rig.New(t, 1)
	before := storedPrompts(r)
	for body, code := range map[string]string{
		"{": "bad_request", "{}": "bad_prompt", "\xff": "bad_prompt", `{"text":"x","request_id":"a.b"}`: "bad_request",
		`{"text":"x","top_p":2}`: "bad_request",
	} {
		got := r.Inbox()
		r.Send(r.D.Subjects.Ask(), got.Subject, []byte(body), map[string][]string{"Content-Type": {"application/json"}})
		r.Eventually("an answer to "+body, func() bool { return len(got.All()) > 0 })
		m := got.All()[0]
		if !strings.Contains(string(m.Data)+m.Header.Get("Switchyard-Error-Code"), code) {
			t.Errorf("%q: %s %v, want %s", body, m.Data, m.Header, code)
		}
	}
	if n := storedPrompts(r) - before; n != 0 {
		t.Errorf("%d were stored", n)
	}
}

func storedPrompts(r *rig.Rig) uint64 {
	r.T.Helper()
	s, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Prompts().Name)
	if err != nil {
		r.T.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// A prompt is not cancelled by a repeated ask that goes away, as an ask without a
// prompt is.
func TestRepeatDoesNotCancelPrompt(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 2)
	r.Prompt(rig.AskBody)
	w := r.Claim("one")
	r.Append(w, rig.Token(0))
	again, alone := r.Inbox(), r.Inbox()
	r.Send(r.D.Subjects.Ask(), again.Subject, []byte(rig.AskBody), nil)
	r.Eventually("the repeat's first chunk", func() bool { return len(again.Chunks()) > 0 })
	again.Leave()
	r.Append(w, rig.Token(1)) // finds nobody
	r.Send(r.D.Subjects.Ask(), alone.Subject, []byte(`{"request_id":"two","text":"hi","max_tokens":400}`), nil)
	other, i := r.Claim("two"), 0
	alone.Leave()
	r.Eventually("the end of what only the ask wants", func() bool {
		_ = other.Append(rig.Token(i)) // fails when the request is cancelled
		i++
		r.Append(w, rig.Token(i+1))
		return r.Terminal("two") != nil
	})
	if end := r.Terminal("one"); end != nil {
		t.Errorf("ended by %v", end)
	}
	r.Append(w, rig.Ending("stop"))
}
