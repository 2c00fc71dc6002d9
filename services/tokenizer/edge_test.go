package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
)

// What has more headers than anybody sends is not read: who can be told hears why, and
// nothing is done.
func TestTooManyHeaders(t *testing.T) {
	r := newRig(t, 1)
	many := nats.Header{}
	for i := range 1000 {
		many[fmt.Sprint("h", i)] = []string{""}
	}
	passedOn := r.listen(r.d.Subjects.AnyCancelled())
	r.send(r.d.Subjects.Cancel("one"), "", nil, many)
	for _, subject := range append(r.d.Subjects.Asks(), r.d.Subjects.Replay()) {
		if strings.Contains(subject, "*") {
			continue
		}
		in := r.inbox()
		r.send(subject, in.subject, []byte(`{"text": "Once", "request_id": "one"}`), many)
		if code := in.end().GetError().GetCode(); code != string(edge.PayloadTooLarge) {
			t.Errorf("%s: %s", subject, code)
		}
	}
	if got := passedOn.all(); len(got) > 0 {
		t.Errorf("%d cancellations were passed on", len(got))
	}
}

// A cancellation is passed on to the services once, however many tokenizers there are, and as
// an id alone; what is no id is not.
func TestCancellationsCross(t *testing.T) {
	r := newRig(t, 2)
	passedOn := r.listen(r.d.Subjects.AnyCancelled())
	for _, id := range []string{"*", ">", "ä", strings.Repeat("x", 200), "good"} {
		r.raw("HPUB " + r.d.Subjects.Cancel(id) + " 18 22\r\nNATS/1.0\r\nA: b\r\n\r\nbody\r\n")
	}
	r.eventually("a cancellation", func() bool { return len(passedOn.all()) > 0 })
	r.send(r.d.Subjects.Cancel("last"), "", nil, nil)
	r.eventually("the last one", func() bool {
		all := passedOn.all()
		return all[len(all)-1].Subject == r.d.Subjects.Cancelled("last")
	})
	all := passedOn.all()
	if len(all) != 2 || all[0].Subject != r.d.Subjects.Cancelled("good") || string(all[0].Data) != all[0].Subject {
		t.Errorf("passed on: %v", all)
	}
}

// A tokenizer that cannot hear producers is not ready.
func TestEdgeLost(t *testing.T) {
	r := newRig(t, 0)
	s := r.replica()
	s.edge.Close()
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "producers are not heard") {
		t.Errorf("ready: %v", err)
	}
}
