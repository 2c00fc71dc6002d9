package tokenizer

import (
	"context"
	"testing"
)

// Nobody is told that a model is not served while the server does not say so: its
// stream may have taken the prompt.
func TestGuardThatCannotAsk(t *testing.T) {
	t.Parallel()
	s := New(newRig(t, 0).deployment(), Config{})
	s.ctx = t.Context()
	if _, unserved := s.unserved("other"); !unserved {
		t.Error("a model without a stream is served")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = ended
	if _, unserved := s.unserved("other"); unserved {
		t.Error("no answer is taken for a no")
	}
	if _, unserved := s.unserved("no.model"); !unserved {
		t.Error("a name that no service can have is served")
	}
}
