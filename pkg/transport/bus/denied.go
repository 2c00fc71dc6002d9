package bus

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// IsDenied reports whether a server does not let this user do something: trying again changes
// nothing before somebody changes the user's rights.
func IsDenied(err error) bool { return errors.Is(err, nats.ErrPermissionViolation) }

const (
	// tellAgain is how often the log hears of one complaint.
	tellAgain = 10 * time.Second
	// mostComplaints bounds the memory for them: whose reply subject is denied names it.
	mostComplaints = 256
)

// complaints are what a server does not let a user do, or does not take, on a connection.
type complaints struct {
	mu  sync.Mutex
	all map[string]*complaint // by the server's words
}

type complaint struct {
	err        error
	told, last time.Time
}

// add takes one in, and reports whether it is worth a line in the log.
func (d *complaints) add(err error, now time.Time) (tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) >= mostComplaints || d.all == nil {
		d.all = map[string]*complaint{}
	}
	one := d.all[err.Error()]
	if one == nil {
		one = &complaint{err: err}
		d.all[err.Error()] = one
	}
	one.last = now
	if tell = now.Sub(one.told) >= tellAgain; tell {
		one.told = now
	}
	return tell
}

// of is one that names any of subjects, from a time on; nil: there is none.
func (d *complaints) of(from time.Time, subjects ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for words, one := range d.all {
		for _, s := range subjects {
			if !one.last.Before(from) && strings.Contains(words, strconv.Quote(s)) {
				return one.err
			}
		}
	}
	return nil
}

// forget is called when there is a new connection, whose user may have other rights.
func (d *complaints) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = nil
}

// refusedKey tells of a write that the server does not take, whoever makes it.
func (c *Conn) refusedKey(subject string, err error) {
	if lasts(err) && !IsDenied(err) && c.refusals.add(err, time.Now()) {
		c.log.Warn("a bucket does not take a key", "subject", subject, "error", err)
	}
}

// DeniedKeys is what this user was not let do with keys of a bucket, to write one or to
// follow it, since the connection was made; ">" are all keys followed together.
func (b *Bucket) DeniedKeys(keys ...string) error {
	subjects := make([]string, len(keys))
	for i, key := range keys {
		subjects[i] = b.conn.KeyTo(b.Bucket(), key)
	}
	return b.conn.denials.of(time.Time{}, subjects...)
}
