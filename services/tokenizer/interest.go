package tokenizer

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

// What tokenizers tell each other about a request's readers.
const (
	// interestAsked: does anybody stream this request to a caller who waits?
	interestAsked = "asked"
	// interestHeld: yes.
	interestHeld = "held"
	// interestTaken: the sender streams this request to this reader from now on.
	interestTaken = "taken"
	// interestHanded: the sender stops; one of the others streams this request to this
	// reader from here on.
	interestHanded = "handed"
)

// heldWithin is how long the others have to say that a caller waits.
const heldWithin = 250 * time.Millisecond

const noResponders = "503"

// onProbe hears from the server that nobody listens to a stream's subject any more.
func (s *Service) onProbe(m *nats.Msg) {
	if m.Header.Get("Status") != noResponders {
		return
	}
	request, stream, err := s.d.Subjects.ParseProbe(m.Subject)
	switch {
	case err != nil:
		s.metrics.Refused.Inc()
	case stream == 0:
		s.deserted(request)
	default:
		s.streams.stop(stream)
	}
}

// deserted cancels a request whose caller is gone, unless another caller has
// asked for it, too, and waits. Every further token comes here again, so
// that it is cancelled when the last one goes.
func (s *Service) deserted(request string) {
	noted := s.lonely.note(request, heldWithin, func(context.Context) { s.cancel(request) })
	if noted {
		s.signal(s.d.Subjects.Interest(interestAsked, request))
	}
}

func (s *Service) onInterestAsked(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); schemas.IsSignal(m.Subject, m.Data) && s.streams.asked(request) {
		s.signal(s.d.Subjects.Interest(interestHeld, request))
	}
}

func (s *Service) onInterestHeld(m *nats.Msg) {
	if schemas.IsSignal(m.Subject, m.Data) {
		s.lonely.forget(schemas.LastToken(m.Subject))
	}
}

// takeOver has other replicas end their streams of a request to the same reader.
func (s *Service) takeOver(st *stream) {
	body := strings.Join([]string{strconv.FormatInt(st.turn, 10), s.id, st.to.subject}, " ")
	if err := s.d.Conn.SendMsg(&nats.Msg{Subject: s.d.Subjects.Interest(interestTaken, st.request), Data: []byte(body)}); err != nil {
		s.d.Logger.Debug("taking a reader over", "request", st.request, "error", err)
	}
}

// onInterestTaken leaves a reader to another replica. One that took over a stream of an
// earlier turn than the one here, as one that was handed on, has to hear of this one.
func (s *Service) onInterestTaken(m *nats.Msg) {
	if later := s.takenOver(m); later != nil {
		s.takeOver(later)
	}
}

func (s *Service) takenOver(m *nats.Msg) (later *stream) {
	parts := strings.Split(string(m.Data), " ")
	if len(parts) != 3 || parts[1] == s.id || s.foreigner(parts[1]) {
		return nil
	}
	// Both could take over at once: the later turn stays.
	turn, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil
	}
	return s.streams.takenOver(parts[1], schemas.LastToken(m.Subject), parts[2], turn)
}
