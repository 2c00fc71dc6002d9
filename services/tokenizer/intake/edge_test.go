package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// What has more headers than anybody sends is not read: who can be told hears why, and
// nothing is done.
func TestTooManyHeaders(t *testing.T) {
	r := rig.New(t, 1)
	many := nats.Header{}
	for i := range 1000 {
		many[fmt.Sprint("h", i)] = []string{""}
	}
	passedOn := r.Listen(r.D.Subjects.AnyCancelled())
	r.Send(r.D.Subjects.Cancel("one"), "", nil, many)
	told := map[string]*rig.Reader{}
	unserved := schemas.NewSubjects(r.D.Subjects.Prefix, "other").Ask() // which the guards refuse behind all before it
	for _, subject := range append(r.D.Subjects.Asks(), r.D.Subjects.Replay(), unserved) {
		if strings.Contains(subject, "*") {
			continue
		}
		in := r.Inbox()
		told[subject] = in
		r.Send(subject, in.Subject, []byte(`{"text": "Once", "request_id": "one"}`), many)
		if code := in.End().GetError().GetCode(); code != string(edge.PayloadTooLarge) {
			t.Errorf("%s: %s", subject, code)
		}
	}
	for subject, in := range told {
		if n := len(in.Ends()); n != 1 {
			t.Errorf("%s: told %d times", subject, n)
		}
	}
	if got := passedOn.All(); len(got) > 0 {
		t.Errorf("%d cancellations were passed on", len(got))
	}
}

// A cancellation is passed on to the services once, however many tokenizers there are, and as
// an id alone; what is no id is not.
func TestCancellationsCross(t *testing.T) {
	r := rig.New(t, 2)
	passedOn := r.Listen(r.D.Subjects.AnyCancelled())
	for _, id := range []string{"*", ">", "ä", strings.Repeat("x", 200), "good"} {
		r.Raw("HPUB " + r.D.Subjects.Cancel(id) + " 18 22\r\nNATS/1.0\r\nA: b\r\n\r\nbody\r\n")
	}
	r.Eventually("a cancellation", func() bool { return len(passedOn.All()) > 0 })
	r.Send(r.D.Subjects.Cancel("last"), "", nil, nil)
	r.Eventually("the last one", func() bool {
		all := passedOn.All()
		return all[len(all)-1].Subject == r.D.Subjects.Cancelled("last")
	})
	all := passedOn.All()
	if len(all) != 2 || all[0].Subject != r.D.Subjects.Cancelled("good") || string(all[0].Data) != all[0].Subject {
		t.Errorf("passed on: %v", all)
	}
}

// A tokenizer that cannot hear producers is not ready.
func TestEdgeLost(t *testing.T) {
	r := rig.New(t, 0)
	s := r.Replica()
	s.D.Edge.Close()
	r.Eventually("it says that it does not hear producers", func() bool { // once it is a member
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "producers are not heard")
	})
}
