package tokenizer

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// What cannot fit is refused for its size, with both numbers, by ask and by prompt.
func TestLargePrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	for _, unit := range []string{" ", "a", "the ", "\n"} {
		body := fmt.Sprintf(`{"request_id":"big","text":%q}`, strings.Repeat(unit, 100_000/len(unit)))
		for _, subject := range []string{r.d.Subjects.Ask(), r.d.Subjects.Prompt()} {
			got := r.inbox()
			header := nats.Header{"Content-Type": {"application/json"}, "Switchyard-Reply-To": {got.subject}}
			r.send(subject, got.subject, []byte(body), header)
			r.eventually("a refusal", func() bool { return len(got.ends()) > 0 })
			if e := got.ends()[0].Error; e.GetCode() != "bad_prompt" || !strings.Contains(e.Message, "100000 bytes; the context holds 512 tokens of at most 32 bytes") {
				t.Errorf("%q: %v", unit, e)
			}
		}
	}
}

// What is larger than any prompt that fits is not read at all: asks are refused for their
// size, the stream takes no such prompt, and where an older one does, it is refused unread.
func TestOversizedPromptsAreNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	most := int(schemas.MaxPrompt(512))
	for name, header := range map[string]nats.Header{"JSON": nil, "protobuf": {"Content-Type": {"application/protobuf"}}} {
		body := slices.Concat([]byte(`{"input_ids":[`), bytes.Repeat([]byte("1,"), most/2), []byte("1]}"))
		got := r.inbox()
		r.send(r.d.Subjects.Ask(), got.subject, body, header)
		if e := got.end().Error; e.GetCode() != "payload_too_large" || !strings.Contains(e.Message, fmt.Sprintf("the context of 512 tokens has %d at most", most)) {
			t.Errorf("%s: %v", name, e)
		}
	}
	large := bytes.Repeat([]byte("1"), most+64<<10+1)
	if _, err := r.d.Conn.StoreBytes(r.ctx(), r.d.Subjects.Prompt(), large, nil); err == nil {
		t.Error("the stream takes what nobody reads")
	}
	r.alter(r.d.Streams.Prompts().Name, func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 })
	got := r.inbox()
	r.send(r.d.Subjects.Prompt(), "", large, nats.Header{"Switchyard-Reply-To": {got.subject}})
	if e := got.end().Error; e.GetCode() != "payload_too_large" {
		t.Errorf("a stored one: %v", e)
	}
	if n := s.askBytes.Had() + s.asks.Had(); n != 0 {
		t.Errorf("%d are still held", n)
	}
}

// One tenant's asks leave others a share of the places, and of the bytes.
func TestAsksAreShared(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := New(r.d, Config{MaxQueued: DefaultMaxQueued})
	for name, size := range map[string]int{"places": 1, "bytes": int(s.limits.Bytes)} {
		taken := 0
		for ; s.takeAsk("most", size) == nil; taken++ {
		}
		if taken < 100 || taken > asksAtOnce/2 {
			t.Errorf("%s: one tenant alone takes %d asks", name, taken)
		}
		if err := s.takeAsk("other", size); err != nil {
			t.Errorf("%s: another tenant: %v", name, err)
		}
		s.giveAsk("other", size)
		for range taken {
			s.giveAsk("most", size)
		}
	}
	if n := s.askBytes.Had() + s.asks.Had(); n != 0 {
		t.Errorf("%d are still held", n)
	}
}

// A prompt that takes long to read holds nobody else up.
func TestIntakeGoesOnBesideLargePrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	release := r.hold(s, "slow")
	r.prompt(`{"request_id":"slow","text":"slow"}`)
	second := r.inbox()
	r.prompt(`{"request_id":"slow","text":"another","reply_to":"` + second.subject + `"}`)
	for i := range 20 {
		r.prompt(fmt.Sprintf(`{"request_id":"quick-%d","text":"quick"}`, i))
	}
	for i := range 20 {
		r.opened(fmt.Sprintf("quick-%d", i))
	}
	if len(second.all()) > 0 {
		t.Error("the second prompt of an id overtook the first")
	}
	release()
	r.opened("slow")
	if c := second.end(); c.Error.GetCode() != "bad_request" {
		t.Errorf("the other prompt under the same id ended in %v", c)
	}
}

// A prompt that another replica had, and perhaps has accepted, is not refused
// as overload; a new one is.
func TestRedeliveredPromptIsNotRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	queue, err := r.d.Conn.Queue(r.ctx(), bus.QueueSettings{
		Stream: r.d.Streams.Prompts(), Name: probe.PromptGroup, AckWait: promptAckWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Stop()
	had, fresh := r.inbox(), r.inbox()
	r.prompt(`{"request_id":"had","text":"hi","reply_to":"` + had.subject + `"}`)
	taken, err := queue.Pull(r.ctx(), 1)
	if err != nil || taken[0].Nak(0) != nil {
		t.Fatal(err)
	}
	r.replica(func(c *Config) { c.MaxQueued = 0 })
	r.append(r.claim("had"), token(0), ending("stop"))
	if c := had.end(); c.FinishReason != "stop" || len(had.ends()) != 1 {
		t.Errorf("ended by %v", had.ends())
	}
	r.prompt(`{"request_id":"fresh","text":"hi","reply_to":"` + fresh.subject + `"}`)
	if c := fresh.end(); c.Error.GetCode() != "overloaded" {
		t.Errorf("ended by %v", c)
	}
}

// Who stops takes no place that nobody has given.
func TestRoomAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // it may see the end or the place first
		r := newRoom(1)
		if n := r.take(ended); n+len(r) != 1 {
			t.Fatalf("%d taken and %d left of 1 place", n, len(r))
		}
	}
}
