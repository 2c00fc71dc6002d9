package tokenizer

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
)

// prompt stores a prompt as a producer does.
func (r *rig) prompt(body string) {
	r.t.Helper()
	if _, err := r.d.Conn.JetStream().Publish(r.ctx(), r.d.Subjects.Prompt(), []byte(body)); err != nil {
		r.t.Fatal(err)
	}
}

// Only the system's own stop is "stop": a cut answer would look complete.
func TestCancelledByProducers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	body, _ := proto.Marshal(&pb.Cancel{RequestId: "one", Reason: "stop"})
	protobuf := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}
	stop := r.d.Subjects.Stop
	for request, c := range map[string]struct {
		msg  *nats.Msg
		want string
	}{
		"one": {&nats.Msg{Subject: r.d.Subjects.Cancel("one"), Data: body, Header: protobuf}, "cancelled"},
		"two": {bus.Told(stop("two"), schemas.SignalBody(stop("two"))), "stop"},
	} {
		r.prompt(`{"text":"hi","request_id":"` + request + `"}`)
		r.append(r.claim(request), token(0))
		r.send(stop(request), "", []byte(`{"stream":"S","seq":1}`), nil) // the server's acknowledgement of something else
		r.send(c.msg.Subject, "", c.msg.Data, c.msg.Header)
		r.eventually("the end of "+request, func() bool { return r.terminal(request) != nil })
		if got := r.terminal(request).FinishReason; got != c.want {
			t.Errorf("%s ended by %q, want %q", request, got, c.want)
		}
	}
}

// A cancellation of what is no id touches nothing.
func TestCancelledByWildcard(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.prompt(`{"text":"hi","request_id":"other"}`)
	r.append(r.claim("other"), token(0))
	for _, id := range []string{"*", ">", "ä"} {
		// No client publishes to such subjects; the protocol does.
		r.raw("PUB " + r.d.Subjects.Cancel(id) + " 0\r\n\r\n")
	}
	r.prompt(`{"text":"hi","request_id":"last"}`)
	r.opened("last")
	r.send(r.d.Subjects.Cancel("last"), "", nil, nil)
	r.eventually("the end of what came last", func() bool { return r.terminal("last") != nil })
	if r.terminal("other") != nil {
		t.Error("the other request was ended")
	}
	if got := r.logs(); got != 2 {
		t.Errorf("%d requests have logs, want 2", got)
	}
}

// logs counts the subjects that have records.
func (r *rig) logs() uint64 {
	r.t.Helper()
	s, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Tokens().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.NumSubjects
}

// A request that was cancelled before it was accepted is accepted, and ends.
func TestCancelledBeforeAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for i := range 6 { // whichever replica takes it
		id := fmt.Sprintf("early-%d", i)
		r.send(r.d.Subjects.Cancel(id), "", nil, nil)
		time.Sleep(time.Duration(i) * cancelGrace / 2) // some are handled, some wait
		got := r.inbox()
		r.prompt(`{"text":"hi","request_id":"` + id + `","reply_to":"` + got.subject + `"}`)
		if c := got.end(); c.FinishReason != "cancelled" || c.RequestId != id {
			t.Errorf("%s ended by %q: %v", id, c.FinishReason, c.Error)
		}
		again := r.inbox()
		r.prompt(`{"text":"hi","request_id":"` + id + `","reply_to":"` + again.subject + `"}`)
		if c := again.end(); c.FinishReason != "cancelled" {
			t.Errorf("the repeat of %s ended by %q: %v", id, c.FinishReason, c.Error)
		}
	}
}

// However many cancellations come, little work is under way at once.
func TestManyCancellations(t *testing.T) {
	const cancels = 10_000
	r := newRig(t, 0)
	s := r.replica()
	r.eventually("it serves all shards", func() bool { return s.shards.count() == schemas.LogShards })
	before, most := runtime.NumGoroutine(), 0
	for i := range cancels {
		if err := r.nc.Publish(r.d.Subjects.Cancel(fmt.Sprintf("none-%d", i)), nil); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine())
		}
	}
	r.eventually("the last one is heard", func() bool {
		most = max(most, runtime.NumGoroutine())
		return s.cancelled.has("none-9999", time.Now())
	})
	r.prompt(`{"text":"hi","request_id":"none-9999"}`)
	r.eventually("the end of the last one", func() bool {
		most = max(most, runtime.NumGoroutine())
		return r.terminal("none-9999") != nil
	})
	t.Logf("%d goroutines, %d before", most, before)
	if most > before+cancels/10 { // the server has some of its own, and more on a busy machine
		t.Errorf("%d goroutines, %d before", most, before)
	}
}
