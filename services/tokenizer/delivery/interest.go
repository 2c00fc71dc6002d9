package delivery

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

// What tokenizers tell each other about a request's readers.
const (
	// interestAsked: does any replica stream this request to a caller that waits?
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

// noResponders says whether a message is the server's word that no client listens. One that
// JetStream sends, with the headers that a client has stored, has further ones.
func noResponders(m *nats.Msg) bool {
	further := maps.Clone(m.Header)
	delete(further, "Status")
	delete(further, "Nats-Subject")
	return m.Header.Get("Status") == "503" && len(further) == 0 && len(m.Data) == 0 && m.Reply == ""
}

// OnProbe hears from the server that no client listens to a stream's subject any more.
func (s *Replays) OnProbe(m *nats.Msg) {
	request, stream, err := s.d.Subjects.ParseProbe(m.Subject)
	switch {
	case err != nil || !noResponders(m):
		s.metrics.Refused.Inc()
	case stream == 0:
		s.whenDeserted(request)
	default:
		s.open.stop(stream)
	}
}

// whenDeserted cancels a request whose caller has been gone for a while, unless another caller
// has asked for it, too, and waits. Every further token comes here again, so
// that it is cancelled when the last one goes.
func (s *Replays) whenDeserted(request string) {
	now := time.Now()
	if now.Sub(s.d.Edge.Regained()) < resettling || !s.absent.lasts(request, now) {
		return
	}
	noted := s.deserted.note(request, s.heldWithin, func(context.Context) { s.endings.Cancel(request) })
	if noted {
		s.signal(s.d.Subjects.Interest(interestAsked, request))
	}
}

func (s *Replays) onInterestAsked(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); s.isSignal(m) && s.open.asked(request) {
		s.signal(s.d.Subjects.Interest(interestHeld, request))
	}
}

func (s *Replays) onInterestHeld(m *nats.Msg) {
	if s.isSignal(m) {
		s.deserted.forget(schemas.LastToken(m.Subject))
	}
}

// takeOver has other replicas end their streams of a request to the same reader.
func (s *Replays) takeOver(st *replay) {
	body := takenBody(st.turn, s.replica, st.to.Subject)
	if err := s.d.Conn.Tell(s.d.Subjects.Interest(interestTaken, st.request), []byte(body)); err != nil {
		s.d.Logger.Debug("taking a reader over", "request", st.request, "error", err)
	}
}

// onInterestTaken leaves a reader to another replica. One that took over a stream of an
// earlier turn than the one here, as one that was handed on, has to hear of this one.
func (s *Replays) onInterestTaken(m *nats.Msg) {
	later, err := s.takenOver(m)
	switch {
	case err != nil:
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not leaving a reader to another replica", "error", err)
	case later != nil:
		s.takeOver(later)
	}
}

func (s *Replays) takenOver(m *nats.Msg) (later *replay, err error) {
	turn, by, reader, err := parseTaken(m.Data)
	if err != nil || by == s.replica || s.kinds.foreigner(by) {
		return nil, err
	}
	return s.open.takenOver(by, schemas.LastToken(m.Subject), reader, turn), nil
}

// takenBody is what takeOver sends.
func takenBody(turn int64, by, reader string) string {
	return strings.Join([]string{strconv.FormatInt(turn, 10), by, reader}, " ")
}

// parseTaken reads what takeOver sends, and nothing else. Both could take over at once:
// the later turn stays.
func parseTaken(body []byte) (turn int64, by, reader string, err error) {
	parts := strings.SplitN(string(body), " ", 3)
	if len(parts) == 3 {
		turn, err = strconv.ParseInt(parts[0], 10, 64)
		by, reader = parts[1], parts[2]
	}
	if err != nil || !schemas.IsReplicaID(by) || strings.Contains(reader, " ") || takenBody(turn, by, reader) != string(body) {
		return 0, "", "", fmt.Errorf("%.80q does not say who serves which reader at which turn", body)
	}
	return turn, by, reader, nil
}
