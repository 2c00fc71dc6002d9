package tokenizer

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// deliver delivers the prompt that waits so often, as to replicas that go away with
// it, and returns its last delivery.
func (r *rig) deliver(times int) (last *bus.Delivery) {
	r.t.Helper()
	q, err := r.d.Conn.Queue(r.ctx(), bus.QueueSettings{Stream: r.d.Streams.Prompts(), Name: "tokenizer", AckWait: promptAckWait})
	if err != nil {
		r.t.Fatal(err)
	}
	defer q.Stop()
	for n := 0; n < times; n = last.Delivered {
		ds, err := q.Pull(r.ctx(), 1)
		if err != nil {
			r.t.Fatal(err)
		}
		last = ds[0]
		if err := last.Nak(0); err != nil {
			r.t.Fatal(err)
		}
	}
	return last
}

// letters are the dead letters of prompts.
func (r *rig) letters() (out []*pb.DeadLetter) {
	r.t.Helper()
	for from := uint64(1); ; {
		m, err := r.d.Conn.Next(r.ctx(), r.d.Streams.Dead().Name, r.d.Subjects.AnyDead(), from)
		if errors.Is(err, bus.ErrNoMessage) {
			return out
		}
		l := &pb.DeadLetter{}
		if err := errors.Join(err, proto.Unmarshal(m.Data, l)); err != nil {
			r.t.Fatal(err)
		}
		out, from = append(out, l), m.Sequence+1
	}
}

// dead waits for a dead letter and returns the first.
func (r *rig) dead() *pb.DeadLetter {
	r.t.Helper()
	r.eventually("a dead letter", func() bool { return len(r.letters()) > 0 })
	return r.letters()[0]
}

// A prompt that many replicas went away with ends as an error.
func TestPromptThatKills(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	got := r.inbox()
	r.prompt(`{"request_id":"a","text":"killer","reply_to":"` + got.subject + `"}`)
	r.deliver(maxDeliveries)
	r.replica()
	if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "33 replicas that had it went away") {
		t.Errorf("ended in %v", e)
	}
	if l := r.dead(); l.Reason != "deliveries" || l.Deliveries != maxDeliveries+1 {
		t.Errorf("dead letter %v", l)
	}
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
}

// A prompt whose taking panics ends as an error, once, and others are taken.
func TestPromptThatPanics(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	text := s.model.EncodeText
	s.model.EncodeText = func(p string, special bool) ([]uint32, error) {
		if p == "boom" {
			panic("index out of range")
		}
		return text(p, special)
	}
	got := r.inbox()
	r.prompt(`{"request_id":"a","text":"boom","reply_to":"` + got.subject + `"}`)
	if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "fault") {
		t.Errorf("ended in %v", e)
	}
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
	r.eventually("both are settled", r.settled)
	if n := len(got.ends()); n != 1 {
		t.Errorf("%d ends", n)
	}
	if l := r.dead(); l.Reason != "panic" || !strings.Contains(string(l.Body), "boom") || l.Replica != s.id {
		t.Errorf("dead letter %v", l)
	}
}

// What cannot be read is kept only when it names nobody to tell.
func TestUnreadablePrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	got, rejected := r.inbox(), r.listen(r.d.Subjects.Rejected())
	for _, header := range []nats.Header{{schemas.HeaderReplyTo: {got.subject}}, nil} {
		if _, err := r.d.Conn.StoreBytes(r.ctx(), r.d.Subjects.Prompt(), []byte(`{"text":`), header); err != nil {
			t.Fatal(err)
		}
	}
	if got.end().Error.GetCode() != "bad_request" || rejected.end().Error.GetCode() != "bad_request" {
		t.Errorf("%v, %v", got.end(), rejected.end())
	}
	if l := r.dead(); l.Reason != "unreadable" || l.Sequence != 2 || len(r.letters()) != 1 {
		t.Errorf("dead letters %v", r.letters())
	}
}

// A prompt that looks like a server's status is refused as any other without a
// text, and costs those behind it nothing.
func TestPromptsWithStatusHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	rejected := r.listen(r.d.Subjects.Rejected())
	statuses := []string{"100", "404", "408", "409", "503"}
	for _, status := range statuses {
		m := &nats.Msg{Subject: r.d.Subjects.Prompt(), Header: nats.Header{"Status": {status}}}
		if _, err := r.d.Conn.JetStream().PublishMsg(r.ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("all are refused", func() bool { return len(rejected.ends()) == len(statuses) })
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
	r.eventually("all are settled", r.settled)
}
