package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// A memory stream of a cluster has one copy. When the server that has it is gone,
// nobody answers for the stream, and the others wait for that server. What the
// stream held can be made again, so it is deleted, and created anew on a server
// that lives. Replicas that notice the same at one time do it more than once;
// a consumer that one of them loses by that is told so, and made again.

const (
	// abandonedAfter is how long a memory stream has to be silent before it is deleted.
	abandonedAfter = time.Second
	// lastLook is how long the last question waits, by which most replicas find
	// what the first one has made.
	lastLook = 100 * time.Millisecond
	// answersWithin is when a server that hangs is told from one that does not.
	answersWithin = 500 * time.Millisecond
)

// silences are since when memory streams have not answered.
type silences map[string]time.Time

// quiet notes that a stream has not answered since a moment, or longer.
func (s silences) quiet(stream string, since time.Time) {
	if at, known := s[stream]; !known || since.Before(at) {
		s[stream] = since
	}
}

func (s silences) abandoned(stream string, now time.Time) bool {
	at, known := s[stream]
	return known && now.Sub(at) >= abandonedAfter
}

// look asks for a stream, and deletes a memory stream that nobody answers for.
// Who may not make it waits for who may.
func (c *Conn) look(ctx context.Context, name string, memory bool) (jetstream.Stream, error) {
	begun := time.Now()
	stream, err := c.js.Stream(ctx, name)
	if !memory || !c.Clustered() || !c.noteLook(name, begun, err) {
		return stream, err
	}
	if c.barred.Load() {
		return nil, errors.Join(err, c.lacks(name))
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	stream, err = c.js.Stream(within, name)
	if !c.noteLook(name, begun, err) {
		return stream, err
	}
	return nil, errors.Join(err, c.abandon(ctx, name))
}

// noteLook notes what came of looking for a stream, and reports whether it has
// been silent for too long.
func (c *Conn) noteLook(stream string, begun time.Time, err error) (abandoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !unanswered(err) {
		delete(c.silences, stream)
		return false
	}
	c.silences.quiet(stream, begun)
	return c.silences.abandoned(stream, time.Now())
}

// noteSilence notes that nothing has come from a stream since a moment.
func (c *Conn) noteSilence(spec schemas.StreamSpec, since time.Time) {
	if !spec.Memory {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silences.quiet(spec.Name, since)
}

// unanswered reports whether nobody had an answer, or the servers know that the
// stream's own one is gone.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, codeStreamOffline)
}

// abandon deletes a stream without waiting for it: who would confirm that is gone. A
// server that hangs is not told: it would delete, when it goes on, what was made anew.
func (c *Conn) abandon(ctx context.Context, stream string) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
	defer cancel()
	if err := c.nc.FlushWithContext(within); err != nil {
		return fmt.Errorf("deleting stream %s: the server itself does not answer: %w", stream, err)
	}
	c.log.Warn("no server answers for a stream of tensors; deleting it, so that it is made anew", "stream", stream)
	c.mu.Lock()
	delete(c.silences, stream)
	c.mu.Unlock()
	if err := c.post(apiPrefix(c.js)+"STREAM.DELETE."+stream, "", nil); err != nil {
		return fmt.Errorf("deleting stream %s: %w", stream, err)
	}
	return nil
}
