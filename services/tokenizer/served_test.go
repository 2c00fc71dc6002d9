package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// Who asks for a model that nobody serves is told which ones are, by prompt and by ask.
func TestNotFoundSaysWhatIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	other := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "mixtral")}.Prompts()
	if _, err := r.d.Conn.JetStream().CreateStream(r.ctx(), jetstream.StreamConfig{Name: other.Name, Subjects: other.Subjects}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"switchyard.prompt.nosuch", "switchyard.ask.nosuch"} {
		got := r.inbox()
		r.send(subject, got.subject, []byte(`{"text":"hi"}`), nats.Header{schemas.HeaderReplyTo: {got.subject}})
		e := got.end().Error
		if want := `no model "nosuch" is served here; served here: demo, mixtral`; e.GetCode() != "model_not_found" || e.GetMessage() != want {
			t.Errorf("%s: %v, want %q", subject, e, want)
		}
	}
}

// What is said of models has few names, and none that is long.
func TestNameServed(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	long := strings.Repeat("x", maxServedName+1)
	for _, tc := range []struct {
		own    string
		others []string
		want   string
	}{
		{"demo", nil, "demo"},
		{"demo", []string{"z", "demo", "a", "a"}, "demo, a, z"},
		{"demo", many, "demo, m00, m01, m02, m03, m04, m05, m06, m07, m08 and 21 more"},
		{"demo", []string{long}, "demo and 1 more"},
		{long, nil, "1 models"},
	} {
		if got := nameServed(tc.own, tc.others); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
