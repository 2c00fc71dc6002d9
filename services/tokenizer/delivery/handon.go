package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// handed is a stream that a replica which stops leaves to the others, as far as it was sent.
type handed struct {
	Subject  string      `json:"subject"`
	Named    bool        `json:"named,omitempty"` // by a prompt: it need not be an inbox
	Encoding pb.Encoding `json:"encoding"`
	From     int32       `json:"from"`
	Until    uint64      `json:"until,omitempty"`
	Asked    bool        `json:"asked,omitempty"`
	Turn     int64       `json:"turn"`
	Reader   string      `json:"reader,omitempty"` // the reader's tenant
}

func (st *replay) handed() handed {
	return handed{
		Subject: st.to.Subject, Named: st.to.Origin == Named, Encoding: st.to.Encoding,
		From: st.to.From, Until: st.until, Asked: st.asked, Turn: st.turn + 1, Reader: st.reader,
	}
}

// maxHanded bounds what is decoded of one: a subject, each of whose characters may be
// escaped, and some numbers.
const maxHanded = 6*schemas.MaxReplyTo + 1024

// handOn leaves a stream that has ended here to another replica. Nothing comes back, and
// nothing goes in a circle: a replica that stops has no subscription any more when it sends this,
// once for each stream. If no replica hears it, the reader asks again.
func (s *Replays) handOn(st *replay) {
	body, err := json.Marshal(st.handed())
	if err == nil {
		err = s.d.Conn.Tell(s.d.Subjects.Interest(interestHanded, st.request), body)
	}
	if err != nil {
		s.d.Logger.Debug("handing a replay on", "request", st.request, "error", err)
	}
}

// onInterestHanded goes on with a stream of a replica that stops, if a replay to its
// reader would be begun, unless it is served here since a later turn.
func (s *Replays) onInterestHanded(m *nats.Msg) {
	st, err := parseHanded(schemas.LastToken(m.Subject), m.Data)
	if err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("refusing a replay that was handed on", "error", err)
		return
	}
	if !s.sender.Answerable(st.to) {
		return
	}
	s.lookUp(st)
}

// parseHanded reads what handOn sends, and nothing else.
func parseHanded(request string, body []byte) (*replay, error) {
	h := handed{}
	if len(body) > maxHanded {
		return nil, fmt.Errorf("%d bytes; at most %d are read", len(body), maxHanded)
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("reading what was handed on: %w", err)
	}
	if again, err := json.Marshal(h); err != nil || !bytes.Equal(again, body) {
		return nil, fmt.Errorf("%.80q is not what a replica writes that hands a replay on", body)
	}
	if err := schemas.CheckRequestID(request); err != nil {
		return nil, err
	}
	if h.Turn <= 0 || h.Turn > maxTurn || pb.Encoding_name[int32(h.Encoding)] == "" {
		return nil, fmt.Errorf("request %s: turn %d, encoding %d", request, h.Turn, h.Encoding)
	}
	to := Destination{Subject: h.Subject, Origin: Inbox, Encoding: h.Encoding, From: h.From}
	if h.Named {
		to.Origin = Named
	}
	return &replay{request: request, to: to, until: h.Until, asked: h.Asked, turn: h.Turn, reader: h.Reader}, nil
}
