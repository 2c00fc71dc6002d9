package bus

import (
	"errors"
	"time"
)

// settleDeletion is how long a stream on disk that was there has to be gone
// before it is made again. A server that deletes one forgets its name first and
// moves its folder away when its consumers have stopped; a stream of that name
// made meanwhile would lose its folder, and store nothing from then on.
const settleDeletion = 1500 * time.Millisecond

// errJustDeleted says that it is too early to make a stream again.
var errJustDeleted = errors.New("the stream was deleted a moment ago; it is made again soon")

// deletions remembers which streams were there and since when they are not.
type deletions struct {
	there map[string]bool
	gone  map[string]time.Time
}

func (d *deletions) found(name string) {
	if d.there == nil {
		d.there, d.gone = map[string]bool{}, map[string]time.Time{}
	}
	d.there[name] = true
	delete(d.gone, name)
}

// missing notes that a stream is not there, and reports whether it is too early
// to make it.
func (d *deletions) missing(name string, now time.Time) error {
	if !d.there[name] {
		return nil
	}
	since, known := d.gone[name]
	if !known {
		d.gone[name] = now
		return errJustDeleted
	}
	if now.Sub(since) < settleDeletion {
		return errJustDeleted
	}
	return nil
}

func (c *Conn) foundStream(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deletions.found(name)
	delete(c.lacking, name)
}

func (c *Conn) missingStream(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deletions.missing(name, time.Now())
}
