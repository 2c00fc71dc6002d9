package intake_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Who asks for a model that nobody serves is told which ones are, by prompt and by ask.
func TestNotFoundSaysWhatIsServed(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	other := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "mixtral")}.Prompts()
	if _, err := r.D.Conn.JetStream().CreateStream(r.Ctx(), jetstream.StreamConfig{Name: other.Name, Subjects: other.Subjects}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"switchyard.prompt.nosuch", "switchyard.ask.nosuch"} {
		got := r.Inbox()
		r.Send(subject, got.Subject, []byte(`{"text":"hi"}`), nats.Header{schemas.HeaderReplyTo: {got.Subject}})
		e := got.End().Error
		if want := `no model "nosuch" is served here; served here: demo, mixtral`; e.GetCode() != "model_not_found" || e.GetMessage() != want {
			t.Errorf("%s: %v, want %q", subject, e, want)
		}
	}
}
