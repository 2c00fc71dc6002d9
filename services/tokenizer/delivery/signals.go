package delivery

import (
	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

// signal sends a message whose subject says all.
func (c *common) signal(subject string) {
	if err := c.d.Conn.Tell(subject, schemas.SignalBody(subject)); err != nil {
		c.d.Logger.Warn("sending a signal", "subject", subject, "error", err)
	}
}

// isSignal counts what is none.
func (c *common) isSignal(m *nats.Msg) bool {
	is := schemas.IsSignal(m.Subject, m.Data)
	if !is {
		c.metrics.Refused.Inc()
	}
	return is
}
