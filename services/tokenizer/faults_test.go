package tokenizer

import (
	"fmt"
	"math"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// alter changes a stream's settings.
func (r *rig) alter(stream string, change func(*jetstream.StreamConfig)) {
	r.t.Helper()
	js := r.d.Conn.JetStream()
	s, err := js.Stream(r.ctx(), stream)
	if err != nil {
		r.t.Fatal(err)
	}
	config := s.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateStream(r.ctx(), config); err != nil {
		r.t.Fatal(err)
	}
}

// sequences are the requests that attention was handed.
func (r *rig) sequences() uint64 {
	r.t.Helper()
	s, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Sequences().Name)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

func (r *rig) promptFor(got *reader, request string) {
	r.t.Helper()
	r.prompt(fmt.Sprintf(`{"request_id":%q,"text":"hi","reply_to":%q}`, request, got.subject))
}

// A request that finds no room among those that wait for attention has a log
// already: it ends there, with an error that says when to come again, and leaves
// nothing behind. What came before it is not disturbed.
func TestIntakeWithFullSequences(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.alter(r.d.Streams.Sequences().Name, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew })
	first, second := r.inbox(), r.inbox()
	r.promptFor(first, "first")
	r.eventually("the first is handed over", func() bool { return r.sequences() == 1 })
	r.promptFor(second, "second")
	if c := second.end(); c.Error.GetCode() != "overloaded" || c.Error.RetryAfter == 0 {
		t.Errorf("ended by %v", c)
	}
	// It has no log where the replica had looked at the stream, as each second, before it came.
	log, _, err := r.log.Read(r.ctx(), "second", math.MaxUint64)
	if end := r.terminal("second"); len(log) > 0 && end.GetError().GetCode() != "overloaded" {
		t.Errorf("its log ends by %v, %v", end, err)
	}
	r.append(r.claim("first"), token(0), ending("stop"))
	if c := first.end(); c.FinishReason != "stop" {
		t.Errorf("the first ended by %v", c)
	}
}

// A prompt whose sequence cannot be stored comes again, finds its own acceptance,
// and is handed over once.
func TestIntakeWithoutSequences(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	stream := r.d.Streams.Sequences()
	if err := r.d.Conn.JetStream().DeleteStream(r.ctx(), stream.Name); err != nil {
		t.Fatal(err)
	}
	got := r.inbox()
	r.promptFor(got, "one")
	seed := r.opened("one").Seed
	if err := r.d.Conn.Ensure(r.ctx(), 1, stream); err != nil {
		t.Fatal(err)
	}
	r.eventually("the sequence", func() bool { return r.sequences() > 0 })
	r.eventually("the prompt is settled", r.settled)
	if n, again := r.sequences(), r.opened("one").Seed; n != 1 || again != seed {
		t.Errorf("%d sequences; the seed was %d and is %d", n, seed, again)
	}
	r.append(r.claim("one"), token(0), ending("stop"))
	if c := got.end(); c.FinishReason != "stop" || len(got.ends()) != 1 {
		t.Errorf("ended by %v", got.ends())
	}
}

// settled says that no prompt is left.
func (r *rig) settled() bool {
	s, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Prompts().Name)
	return err == nil && s.CachedInfo().State.Msgs == 0
}

// A log whose opening is stored and not acknowledged is found by the prompt when
// it comes again: one acceptance, one answer.
func TestIntakeWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	tokens := r.d.Streams.Tokens().Name
	r.alter(tokens, func(c *jetstream.StreamConfig) { c.NoAck = true })
	got := r.inbox()
	r.promptFor(got, "one")
	r.opened("one")
	r.alter(tokens, func(c *jetstream.StreamConfig) { c.NoAck = false })
	r.eventually("the sequence", func() bool { return r.sequences() == 1 })
	r.append(r.claim("one"), token(0), ending("stop"))
	if c := got.end(); c.FinishReason != "stop" || len(got.ends()) != 1 {
		t.Errorf("ended by %v", got.ends())
	}
}

// A replica that goes away while it reads a prompt leaves it to another.
func TestIntakeOfALeavingReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	queue, err := r.d.Conn.Queue(r.ctx(), bus.QueueSettings{
		Stream: r.d.Streams.Prompts(), Name: probe.PromptGroup, AckWait: promptAckWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := r.inbox()
	r.promptFor(got, "one")
	if taken, err := queue.Pull(r.ctx(), 1); err != nil || len(taken) != 1 {
		t.Fatal(err)
	}
	queue.Stop() // without a word about what it has
	r.replica()
	r.append(r.claim("one"), token(0), ending("stop"))
	if c := got.end(); c.FinishReason != "stop" {
		t.Errorf("ended by %v", c)
	}
}
