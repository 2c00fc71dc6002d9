package asking

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/chaos/check"
)

func newReader() *reader {
	return &reader{request: "r", changed: make(chan struct{}, 1), stream: check.New(check.Expect{Request: "r"}, 0)}
}

const (
	token   = `{"request_id":"r","index":0,"text":"a","finish_reason":"length","token_ids":[1],"error":null}`
	refusal = `{"request_id":"r","index":-1,"finish_reason":"error","error":{"code":"overloaded","message":"later"}}`
)

// A replay that nobody can answer yet is no end of its request; a refusal of the
// request itself is.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, body string
		replayed   bool
		violations int
		refused    int
	}{
		{"of a replay", refusal, true, 0, 1},
		{"of a replay by the server", "", true, 0, 1},
		{"of the request", refusal, false, 1, 0},
		{"nothing", "", false, 1, 0},
	} {
		r := newReader()
		r.take(0, []byte(c.body), c.replayed)
		if got := len(r.stream.Violations()); got != c.violations || r.refused != c.refused {
			t.Errorf("%s: %d violations, %d refused", c.name, got, r.refused)
		}
	}
}

// A replay of an ended request is refused for good where nobody can read its log, and only
// there.
func TestReplaysOfOtherWeights(t *testing.T) {
	const foreign = `{"request_id":"r","index":-1,"finish_reason":"error","error":{"code":"model_not_ready","message":"accepted by replicas of another kind"}}`
	refused := nats.Header{"Switchyard-Refused": {"replay"}}
	for _, c := range []struct {
		name             string
		reweighed, again bool
		header           nats.Header
		body             string
		want             bool
	}{
		{"of an ended request", true, true, refused, foreign, true},
		{"of a running request", true, false, refused, foreign, false},
		{"by services with the same weights", false, true, refused, foreign, false},
		{"for another reason", true, true, refused, refusal, false},
		{"none, but the end", false, false, nil, foreign, true},
	} {
		l := &Load{settings: Settings{Ends: []string{"model_not_ready", "overloaded"}, Reweighed: c.reweighed}}
		if got := l.final(&nats.Msg{Header: c.header, Data: []byte(c.body)}, c.again); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The reference run takes what comes for what is right, if it is whole.
func TestReference(t *testing.T) {
	r := newReader()
	r.learns = true
	if _, err := r.reference(); err == nil {
		t.Error("nothing is a whole answer")
	}
	r.take(0, []byte(token), false)
	if contents, err := r.reference(); err != nil || len(contents) != 1 {
		t.Errorf("got %v: %v", contents, err)
	}
}
