package intake_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/tokenizer/intake"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// sequences are the requests that attention was handed.
func storedSequences(r *rig.Rig) uint64 {
	r.T.Helper()
	s, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Sequences().Name)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

func promptFor(r *rig.Rig, got *rig.Reader, request string) {
	r.T.Helper()
	r.Prompt(fmt.Sprintf(`{"request_id":%q,"text":"hi","reply_to":%q}`, request, got.Subject))
}

// A request that finds no room among those that wait for attention has a log
// already: it ends there, with an error that says when to come again, and leaves
// nothing behind. What came before it is not disturbed.
func TestIntakeWithFullSequences(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	r.Alter(r.D.Streams.Sequences().Name, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew })
	first, second := r.Inbox(), r.Inbox()
	promptFor(r, first, "first")
	r.Eventually("the first is handed over", func() bool { return storedSequences(r) == 1 })
	promptFor(r, second, "second")
	if c := second.End(); c.Error.GetCode() != "overloaded" || c.Error.RetryAfter == 0 {
		t.Errorf("ended by %v", c)
	}
	// It has no log where the replica had looked at the stream, as each second, before it came.
	log, _, err := r.Log.Read(r.Ctx(), "second", math.MaxUint64)
	if end := r.Terminal("second"); len(log) > 0 && end.GetError().GetCode() != "overloaded" {
		t.Errorf("its log ends by %v, %v", end, err)
	}
	r.Append(r.Claim("first"), rig.Token(0), rig.Ending("stop"))
	if c := first.End(); c.FinishReason != "stop" {
		t.Errorf("the first ended by %v", c)
	}
}

// A prompt whose sequence cannot be stored comes again, finds its own acceptance,
// and is handed over once.
func TestIntakeWithoutSequences(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	stream := r.D.Streams.Sequences()
	if err := r.D.Conn.JetStream().DeleteStream(r.Ctx(), stream.Name); err != nil {
		t.Fatal(err)
	}
	got := r.Inbox()
	promptFor(r, got, "one")
	opened := r.Opened("one")
	if opened.NumericClass != cpu.Class() || opened.Wire != string(r.D.Wire) {
		t.Errorf("its log says %q, rows in %q", opened.NumericClass, opened.Wire)
	}
	seed := opened.Seed
	if err := r.D.Conn.Ensure(r.Ctx(), 1, stream); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the sequence", func() bool { return storedSequences(r) > 0 })
	r.Eventually("the prompt is settled", r.Settled)
	if n, again := storedSequences(r), r.Opened("one").Seed; n != 1 || again != seed {
		t.Errorf("%d sequences; the seed was %d and is %d", n, seed, again)
	}
	r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
	if c := got.End(); c.FinishReason != "stop" || len(got.Ends()) != 1 {
		t.Errorf("ended by %v", got.Ends())
	}
}

// A log whose opening is stored and not acknowledged is found by the prompt when
// it comes again: one acceptance, one answer.
func TestIntakeWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	tokens := r.D.Streams.Tokens().Name
	r.Alter(tokens, func(c *jetstream.StreamConfig) { c.NoAck = true })
	got := r.Inbox()
	promptFor(r, got, "one")
	r.Opened("one")
	r.Alter(tokens, func(c *jetstream.StreamConfig) { c.NoAck = false })
	r.Eventually("the sequence", func() bool { return storedSequences(r) == 1 })
	r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
	if c := got.End(); c.FinishReason != "stop" || len(got.Ends()) != 1 {
		t.Errorf("ended by %v", got.Ends())
	}
}

// A replica that goes away while it reads a prompt leaves it to another.
func TestIntakeOfALeavingReplica(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	queue, err := r.D.Conn.Queue(r.Ctx(), bus.QueueSettings{
		Stream: r.D.Streams.Prompts(), Name: probe.PromptGroup, AckWait: intake.AckWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Inbox()
	promptFor(r, got, "one")
	if taken, err := queue.Pull(r.Ctx(), 1); err != nil || len(taken) != 1 {
		t.Fatal(err)
	}
	queue.Stop() // without a word about what it has
	r.Replica()
	r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
	if c := got.End(); c.FinishReason != "stop" {
		t.Errorf("ended by %v", c)
	}
}
