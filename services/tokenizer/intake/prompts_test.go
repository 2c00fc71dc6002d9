package intake_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/intake"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// What cannot fit is refused for its size, with both numbers, by ask and by prompt.
func TestLargePrompts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	for _, unit := range []string{" ", "a", "the ", "\n"} {
		body := fmt.Sprintf(`{"request_id":"big","text":%q}`, strings.Repeat(unit, 100_000/len(unit)))
		for _, subject := range []string{r.D.Subjects.Ask(), r.D.Subjects.Prompt()} {
			got := r.Inbox()
			header := nats.Header{"Content-Type": {"application/json"}, "Switchyard-Reply-To": {got.Subject}}
			r.Send(subject, got.Subject, []byte(body), header)
			r.Eventually("a refusal", func() bool { return len(got.Ends()) > 0 })
			if e := got.Ends()[0].Error; e.GetCode() != "bad_prompt" || !strings.Contains(e.Message, "100000 bytes; the context holds 512 tokens of at most 32 bytes") {
				t.Errorf("%q: %v", unit, e)
			}
		}
	}
}

// What is larger than any prompt that fits is not read at all: asks are refused for their
// size, the stream takes no such prompt, and where an older one does, it is refused unread.
func TestOversizedPromptsAreNotRead(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	most := int(schemas.MaxPrompt(512))
	for name, header := range map[string]nats.Header{"JSON": nil, "protobuf": {"Content-Type": {"application/protobuf"}}} {
		body := slices.Concat([]byte(`{"input_ids":[`), bytes.Repeat([]byte("1,"), most/2), []byte("1]}"))
		got := r.Inbox()
		r.Send(r.D.Subjects.Ask(), got.Subject, body, header)
		if e := got.End().Error; e.GetCode() != "payload_too_large" || !strings.Contains(e.Message, fmt.Sprintf("the context of 512 tokens has %d at most", most)) {
			t.Errorf("%s: %v", name, e)
		}
	}
	large := bytes.Repeat([]byte("1"), most+64<<10+1)
	if _, err := r.D.Conn.StoreBytes(r.Ctx(), r.D.Subjects.Prompt(), large, nil); err == nil {
		t.Error("the stream takes what nobody reads")
	}
	r.Alter(r.D.Streams.Prompts().Name, func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 })
	got := r.Inbox()
	r.Send(r.D.Subjects.Prompt(), "", large, nats.Header{"Switchyard-Reply-To": {got.Subject}})
	if e := got.End().Error; e.GetCode() != "payload_too_large" {
		t.Errorf("a stored one: %v", e)
	}
	if asks, size := s.Intake.Asks.InHand(); asks+size != 0 {
		t.Errorf("%d of %d bytes are still held", asks, size)
	}
}

// One tenant's asks leave others a share of the places, and of the bytes.
func TestAsksAreShared(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Unstarted(r.D)
	for name, size := range map[string]int{"places": 1, "bytes": s.Intake.MaxBytes()} {
		taken := 0
		for ; s.Intake.Asks.TakeAsk("most", size) == nil; taken++ {
		}
		if taken < 100 || taken > intake.AsksAtOnce/2 {
			t.Errorf("%s: one tenant alone takes %d asks", name, taken)
		}
		if err := s.Intake.Asks.TakeAsk("other", size); err != nil {
			t.Errorf("%s: another tenant: %v", name, err)
		}
		s.Intake.Asks.GiveAsk("other", size)
		for range taken {
			s.Intake.Asks.GiveAsk("most", size)
		}
	}
	if asks, size := s.Intake.Asks.InHand(); asks+size != 0 {
		t.Errorf("%d of %d bytes are still held", asks, size)
	}
}

// A prompt that takes long to read holds nobody else up.
func TestIntakeGoesOnBesideLargePrompts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	release := r.Hold(s, "slow")
	r.Prompt(`{"request_id":"slow","text":"slow"}`)
	second := r.Inbox()
	r.Prompt(`{"request_id":"slow","text":"another","reply_to":"` + second.Subject + `"}`)
	for i := range 20 {
		r.Prompt(fmt.Sprintf(`{"request_id":"quick-%d","text":"quick"}`, i))
	}
	for i := range 20 {
		r.Opened(fmt.Sprintf("quick-%d", i))
	}
	if len(second.All()) > 0 {
		t.Error("the second prompt of an id overtook the first")
	}
	release()
	r.Opened("slow")
	if c := second.End(); c.Error.GetCode() != "bad_request" {
		t.Errorf("the other prompt under the same id ended in %v", c)
	}
}

// A prompt that another replica had, and perhaps has accepted, is not refused
// as overload; a new one is.
func TestRedeliveredPromptIsNotRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	queue, err := r.D.Conn.Queue(r.Ctx(), bus.QueueSettings{
		Stream: r.D.Streams.Prompts(), Name: probe.PromptGroup, AckWait: intake.AckWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Stop()
	had, fresh := r.Inbox(), r.Inbox()
	r.Prompt(`{"request_id":"had","text":"hi","reply_to":"` + had.Subject + `"}`)
	taken, err := queue.Pull(r.Ctx(), 1)
	if err != nil || taken[0].Nak(0) != nil {
		t.Fatal(err)
	}
	r.Replica(func(c *tokenizer.Config) { c.MaxQueued = 0 })
	r.Append(r.Claim("had"), rig.Token(0), rig.Ending("stop"))
	if c := had.End(); c.FinishReason != "stop" || len(had.Ends()) != 1 {
		t.Errorf("ended by %v", had.Ends())
	}
	r.Prompt(`{"request_id":"fresh","text":"hi","reply_to":"` + fresh.Subject + `"}`)
	if c := fresh.End(); c.Error.GetCode() != "overloaded" {
		t.Errorf("ended by %v", c)
	}
}
