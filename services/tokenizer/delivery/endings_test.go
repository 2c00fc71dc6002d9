package delivery_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Only the system's own stop is "stop": a cut answer would look complete.
func TestCancelledByProducers(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	body, _ := proto.Marshal(&pb.Cancel{RequestId: "one", Reason: "stop"})
	protobuf := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}
	stop := r.D.Subjects.Stop
	for request, c := range map[string]struct {
		msg  *nats.Msg
		want string
	}{
		"one": {&nats.Msg{Subject: r.D.Subjects.Cancel("one"), Data: body, Header: protobuf}, "cancelled"},
		"two": {bus.Told(stop("two"), schemas.SignalBody(stop("two"))), "stop"},
	} {
		r.Prompt(`{"text":"hi","request_id":"` + request + `"}`)
		r.Append(r.Claim(request), rig.Token(0))
		r.Send(stop(request), "", []byte(`{"stream":"S","seq":1}`), nil) // the server's acknowledgement of something else
		r.Send(c.msg.Subject, "", c.msg.Data, c.msg.Header)
		r.Eventually("the end of "+request, func() bool { return r.Terminal(request) != nil })
		if got := r.Terminal(request).FinishReason; got != c.want {
			t.Errorf("%s ended by %q, want %q", request, got, c.want)
		}
	}
}

// A cancellation of what is no id touches nothing.
func TestCancelledByWildcard(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	r.Prompt(`{"text":"hi","request_id":"other"}`)
	r.Append(r.Claim("other"), rig.Token(0))
	for _, id := range []string{"*", ">", "ä"} {
		// No client publishes to such subjects; the protocol does.
		r.Raw("PUB " + r.D.Subjects.Cancel(id) + " 0\r\n\r\n")
	}
	r.Prompt(`{"text":"hi","request_id":"last"}`)
	r.Opened("last")
	r.Send(r.D.Subjects.Cancel("last"), "", nil, nil)
	r.Eventually("the end of what came last", func() bool { return r.Terminal("last") != nil })
	if r.Terminal("other") != nil {
		t.Error("the other request was ended")
	}
	if got := storedLogs(r); got != 2 {
		t.Errorf("%d requests have logs, want 2", got)
	}
}

// logs counts the subjects that have records.
func storedLogs(r *rig.Rig) uint64 {
	r.T.Helper()
	s, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Tokens().Name)
	if err != nil {
		r.T.Fatal(err)
	}
	return s.CachedInfo().State.NumSubjects
}

// A request that was cancelled before it was accepted is accepted, and ends.
func TestCancelledBeforeAccepted(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 2)
	for i := range 6 { // whichever replica takes it
		id := fmt.Sprintf("early-%d", i)
		r.Send(r.D.Subjects.Cancel(id), "", nil, nil)
		time.Sleep(time.Duration(i) * delivery.CancelGrace / 2) // some are handled, some wait
		got := r.Inbox()
		r.Prompt(`{"text":"hi","request_id":"` + id + `","reply_to":"` + got.Subject + `"}`)
		if c := got.End(); c.FinishReason != "cancelled" || c.RequestId != id {
			t.Errorf("%s ended by %q: %v", id, c.FinishReason, c.Error)
		}
		again := r.Inbox()
		r.Prompt(`{"text":"hi","request_id":"` + id + `","reply_to":"` + again.Subject + `"}`)
		if c := again.End(); c.FinishReason != "cancelled" {
			t.Errorf("the repeat of %s ended by %q: %v", id, c.FinishReason, c.Error)
		}
	}
}

// However many cancellations come, little work is under way at once.
func TestManyCancellations(t *testing.T) {
	const cancels = 10_000
	r := rig.New(t, 0)
	s := r.Replica()
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	before, most := runtime.NumGoroutine(), 0
	for i := range cancels {
		if err := r.NC.Publish(r.D.Subjects.Cancel(fmt.Sprintf("none-%d", i)), nil); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine())
		}
	}
	r.Eventually("the last one is heard", func() bool {
		most = max(most, runtime.NumGoroutine())
		return s.Delivery.Endings.Cancelled("default", "none-9999")
	})
	r.Prompt(`{"text":"hi","request_id":"none-9999"}`)
	r.Eventually("the end of the last one", func() bool {
		most = max(most, runtime.NumGoroutine())
		return r.Terminal("none-9999") != nil
	})
	t.Logf("%d goroutines, %d before", most, before)
	if most > before+cancels/10 { // the server has some of its own, and more on a busy machine
		t.Errorf("%d goroutines, %d before", most, before)
	}
}
