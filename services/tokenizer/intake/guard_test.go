package intake_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Nobody is told that a model is not served while the server does not say so: its
// stream may have taken the prompt. That the server does not is said, but at the end.
func TestGuardThatCannotAsk(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	d := r.Deployment()
	var said bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s := r.Unstarted(d)
	s.Intake.Within(t.Context())
	if _, unserved := s.Intake.Edge.Unserved("other"); !unserved {
		t.Error("a model without a stream is served")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.Intake.Within(ended)
	if _, unserved := s.Intake.Edge.Unserved("other"); unserved {
		t.Error("no answer is taken for a no")
	}
	if _, unserved := s.Intake.Edge.Unserved("no.model"); !unserved {
		t.Error("a name that no service can have is served")
	}
	for bytes, want := range map[int]bool{schemas.MaxModelToken + 1: true, schemas.MaxPrefix: true, schemas.MaxPrefix + 1: false} {
		if _, unserved := s.Intake.Edge.Unserved(strings.Repeat("m", bytes)); unserved != want {
			t.Errorf("a name of %d bytes is refused: %v", bytes, unserved)
		}
	}
	if said.Len() > 0 {
		t.Errorf("said %s", &said)
	}
	s.Intake.Within(t.Context())
	d.Conn.Close()
	if _, unserved := s.Intake.Edge.Unserved("other"); unserved {
		t.Error("a failure is taken for a no")
	}
	if got := said.String(); strings.Count(got, "model=other") != 1 || !strings.Contains(got, "closed") {
		t.Errorf("said %q", got)
	}
}
