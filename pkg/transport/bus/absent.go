package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Absent reports whether a server knows of nobody who listens to a subject of core
// NATS. Who listens does not answer, so that a server which says nothing for some
// time, or none at all, is taken for a no. Its error says that nobody is to ask
// again: ctx has ended, the right is missing, or no subject is like this.
func (c *Conn) Absent(ctx context.Context, subject string, within time.Duration) (bool, error) {
	if err := checkSubject(subject, ""); err != nil {
		return false, err
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	before := c.denied.Load()
	_, err := c.nc.RequestWithContext(asking, subject, nil)
	switch denied := c.denied.Load(); {
	case errors.Is(err, nats.ErrNoResponders):
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case c.nc.IsClosed():
		return false, c.Live()
	case denied != before && strings.Contains((*denied).Error(), strconv.Quote(subject)): // and no other one
		return false, fmt.Errorf("looking for who listens to %s: %w", subject, *denied)
	}
	return false, nil
}
