package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

// What services tell each other on core NATS decides things, and a subject that others
// may not publish to does not keep it from being forged: JetStream answers at whatever
// subject a request names. So it has one header, schemas.HeaderTold with its own subject,
// nothing beside it, and no reply subject. Nothing of JetStream's is like this:
//
//   - acknowledgements and answers of its API have no header, and so has a stream's
//     message that was asked for with no_hdr;
//   - a stream's message that was asked for otherwise, or is published again, has
//     JetStream's own headers beside those that it was stored with;
//   - a consumer's message has a reply subject, and a status other headers.

// Tell publishes what Hear listens for. It carries no trace.
func (c *Conn) Tell(subject string, body []byte) error { return c.SendMsg(Told(subject, body)) }

// Told is the message that Tell sends.
func Told(subject string, body []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{schemas.HeaderTold: {subject}}, Data: body}
}

// Hear is Subscribe for what Tell sends. Everything else that comes is refused and counted.
func (c *Conn) Hear(subject, group string, handle nats.MsgHandler) (*nats.Subscription, error) {
	return c.Subscribe(subject, group, func(m *nats.Msg) {
		if err := checkTold(m); err != nil {
			c.refuse(m, err)
			return
		}
		handle(m)
	})
}

func checkTold(m *nats.Msg) error {
	switch by := m.Header[schemas.HeaderTold]; {
	case m.Reply != "":
		return fmt.Errorf("no service has sent it: it has the reply subject %.80q", m.Reply)
	case len(by) != 1 || by[0] != m.Subject:
		return fmt.Errorf("no service has sent it: its header %s is not its subject", schemas.HeaderTold)
	case len(m.Header) != 1:
		return errors.New("no service has sent it: it has further headers")
	}
	return nil
}
