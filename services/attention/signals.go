package attention

import (
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/schemas"
)

// signals hears which requests are to end early.
type signals struct {
	refused prometheus.Counter
	// leave takes a request out that waits, and end ends one that steps.
	leave func(request string)
	end   func(request, reason string)
}

// onCancelled ends a request that its producer wants no more.
func (s *signals) onCancelled(m *nats.Msg) {
	if request, ok := s.request(m); ok {
		s.leave(request)
		s.end(request, "cancelled")
	}
}

// onStop ends a request whose answer has its stop string. The answer looks
// complete then, so it must be a tokenizer that says so.
func (s *signals) onStop(m *nats.Msg) {
	if request, ok := s.request(m); ok {
		s.end(request, "stop")
	}
}

// request is which request a message means, if it is a signal.
func (s *signals) request(m *nats.Msg) (id string, ok bool) {
	if !schemas.IsSignal(m.Subject, m.Data) {
		s.refused.Inc()
		return "", false
	}
	return schemas.LastToken(m.Subject), true
}
