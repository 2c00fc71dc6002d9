package intake_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/intake"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// deliver delivers the prompt that waits so often, as to replicas that go away with
// it, and returns its last delivery.
func deliverPrompt(r *rig.Rig, times int) (last *bus.Delivery) {
	r.T.Helper()
	q, err := r.D.Conn.Queue(r.Ctx(), bus.QueueSettings{Stream: r.D.Streams.Prompts(), Name: "tokenizer", AckWait: intake.AckWait})
	if err != nil {
		r.T.Fatal(err)
	}
	defer q.Stop()
	for n := 0; n < times; n = last.Delivered {
		ds, err := q.Pull(r.Ctx(), 1)
		if err != nil {
			r.T.Fatal(err)
		}
		last = ds[0]
		if err := last.Nak(0); err != nil {
			r.T.Fatal(err)
		}
	}
	return last
}

// letters are the dead letters of prompts.
func letters(r *rig.Rig) (out []*pb.DeadLetter) {
	r.T.Helper()
	for from := uint64(1); ; {
		m, err := r.D.Conn.Next(r.Ctx(), r.D.Streams.Dead().Name, r.D.Subjects.AnyDead(), from)
		if errors.Is(err, bus.ErrNoMessage) {
			return out
		}
		l := &pb.DeadLetter{}
		if err := errors.Join(err, proto.Unmarshal(m.Data, l)); err != nil {
			r.T.Fatal(err)
		}
		out, from = append(out, l), m.Sequence+1
	}
}

// dead waits for a dead letter and returns the first.
func dead(r *rig.Rig) *pb.DeadLetter {
	r.T.Helper()
	r.Eventually("a dead letter", func() bool { return len(letters(r)) > 0 })
	return letters(r)[0]
}

// A prompt that many replicas went away with ends as an error.
func TestPromptThatKills(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	got := r.Inbox()
	r.Prompt(`{"request_id":"a","text":"killer","reply_to":"` + got.Subject + `"}`)
	deliverPrompt(r, intake.MaxDeliveries)
	r.Replica()
	if e := got.End().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "33 replicas that had it went away") {
		t.Errorf("ended in %v", e)
	}
	if l := dead(r); l.Reason != "deliveries" || l.Deliveries != intake.MaxDeliveries+1 {
		t.Errorf("dead letter %v", l)
	}
	r.Prompt(`{"request_id":"b","text":"harmless"}`)
	r.Opened("b")
}

// A prompt whose taking panics ends as an error, once, and others are taken.
func TestPromptThatPanics(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	text := s.Model.EncodeText
	s.Model.EncodeText = func(p string, special bool) ([]uint32, error) {
		if p == "boom" {
			panic("index out of range")
		}
		return text(p, special)
	}
	got := r.Inbox()
	r.Prompt(`{"request_id":"a","text":"boom","reply_to":"` + got.Subject + `"}`)
	if e := got.End().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "fault") {
		t.Errorf("ended in %v", e)
	}
	r.Prompt(`{"request_id":"b","text":"harmless"}`)
	r.Opened("b")
	r.Eventually("both are settled", r.Settled)
	if n := len(got.Ends()); n != 1 {
		t.Errorf("%d ends", n)
	}
	if l := dead(r); l.Reason != "panic" || !strings.Contains(string(l.Body), "boom") || l.Replica != s.Name() {
		t.Errorf("dead letter %v", l)
	}
}

// What cannot be read is kept only when it names nobody to tell.
func TestUnreadablePrompts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	got, rejected := r.Inbox(), r.Listen(r.D.Subjects.Rejected())
	for _, header := range []nats.Header{{schemas.HeaderReplyTo: {got.Subject}}, nil} {
		if _, err := r.D.Conn.StoreBytes(r.Ctx(), r.D.Subjects.Prompt(), []byte(`{"text":`), header); err != nil {
			t.Fatal(err)
		}
	}
	if got.End().Error.GetCode() != "bad_request" || rejected.End().Error.GetCode() != "bad_request" {
		t.Errorf("%v, %v", got.End(), rejected.End())
	}
	if l := dead(r); l.Reason != "unreadable" || l.Sequence != 2 || len(letters(r)) != 1 {
		t.Errorf("dead letters %v", letters(r))
	}
}

// A prompt that looks like a server's status is refused as any other without a
// text, and costs those behind it nothing.
func TestPromptsWithStatusHeaders(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	rejected := r.Listen(r.D.Subjects.Rejected())
	statuses := []string{"100", "404", "408", "409", "503"}
	for _, status := range statuses {
		m := &nats.Msg{Subject: r.D.Subjects.Prompt(), Header: nats.Header{"Status": {status}}}
		if _, err := r.D.Conn.JetStream().PublishMsg(r.Ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	r.Eventually("all are refused", func() bool { return len(rejected.Ends()) == len(statuses) })
	r.Prompt(`{"request_id":"b","text":"harmless"}`)
	r.Opened("b")
	r.Eventually("all are settled", r.Settled)
}
