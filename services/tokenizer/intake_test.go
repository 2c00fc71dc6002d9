package tokenizer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// What cannot fit is refused for its size, with both numbers, by ask and by prompt.
func TestLargePrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	for _, unit := range []string{" ", "a", "the ", "\n"} {
		body := fmt.Sprintf(`{"request_id":"big","text":%q}`, strings.Repeat(unit, 2<<20/len(unit)))
		for _, subject := range []string{r.d.Subjects.Ask(), r.d.Subjects.Prompt()} {
			got := r.inbox()
			header := nats.Header{"Content-Type": {"application/json"}, "Switchyard-Reply-To": {got.subject}}
			r.send(subject, got.subject, []byte(body), header)
			r.eventually("a refusal", func() bool { return len(got.ends()) > 0 })
			if e := got.ends()[0].Error; e.GetCode() != "bad_prompt" || !strings.Contains(e.Message, "2097152 bytes; the context holds 512 tokens of at most 32 bytes") {
				t.Errorf("%q: %v", unit, e)
			}
		}
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
		Stream: r.d.Streams.Prompts(), Name: promptGroup, AckWait: promptAckWait,
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
