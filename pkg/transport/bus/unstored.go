package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// unstoredAfter is how long a stream must have taken nothing, from the first publish without an acknowledgement
	// on, until that is told; among the servers of a cluster an election may take as long as SettlesWithin.
	unstoredAfter = ackTimeout
	// unstoredFor is how long that counts after the last publish in vain: who is not ready tries no more.
	unstoredFor = 30 * time.Second
)

// UnstoredError says that streams take no message, though their server answers otherwise: after a write that
// failed, as on a full disk, nats-server acknowledges none in that stream until it is started again.
type UnstoredError struct {
	Streams []string
	Err     error
}

// Error names them, and the cure.
func (e *UnstoredError) Error() string {
	return fmt.Sprintf("NATS stores nothing in %s (%v), though it answers: %s", strings.Join(e.Streams, ", "), e.Err, unstoredCure)
}

// Unwrap is what was seen.
func (e *UnstoredError) Unwrap() error { return e.Err }

// StoresNothing says what kind of error it is, to those that know no streams.
func (e *UnstoredError) StoresNothing() {}

const unstoredCure = "look at the disk and the log of its nats-server, make room, and start that server again; a stream of a cluster may lack a leader"

// unstored is where publishes are in vain while the server gives signs of life.
type unstored struct {
	c   *Conn
	any atomic.Bool // there is one; acknowledgements need not look otherwise

	mu sync.Mutex
	of map[string]*vain // by what subjects of a stream have in common
}

// vain is a stream that takes nothing.
type vain struct {
	since, last time.Time
	err         error
	subject     string
	lasts, told bool   // it is to be told; it is
	stream      string // or a subject of it
}

// commonOf returns the first three tokens of a subject, which one stream has.
func commonOf(subject string) string {
	at := 0
	for range 3 {
		next := strings.IndexByte(subject[at:], '.')
		if next < 0 {
			return subject
		}
		at += next + 1
	}
	return subject[:at-1]
}

// note takes in what became of a publish.
func (u *unstored) note(subject string, err error, now time.Time) {
	if err == nil && !u.any.Load() {
		return
	}
	common := commonOf(subject)
	u.mu.Lock()
	defer u.mu.Unlock()
	v := u.of[common]
	switch {
	case err == nil:
		u.over(common, v, now)
		return
	case !u.isVain(err):
		return
	case v == nil || now.Sub(v.last) > unstoredFor:
		v = &vain{since: now, stream: common}
		u.of[common] = v
		u.any.Store(true)
	}
	v.last, v.err = now, err
	if now.Sub(v.since) >= u.patience() {
		v.lasts, v.subject = true, subject
	}
}

// isVain reports whether an error is that of a stream that stores nothing, rather than of a server that is away.
func (u *unstored) isVain(err error) bool {
	if own, tells := u.c.nc.Opts.InProcessServer.(interface{ Ready() error }); tells && own.Ready() != nil {
		return false // it says more itself
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == codeStreamStoreFailed && !strings.Contains(api.Description, "maximum") // those are its bounds
	}
	return errors.Is(err, ErrAckLost) && u.c.Hears()
}

func (u *unstored) patience() time.Duration {
	if u.c.Clustered() {
		return SettlesWithin
	}
	return unstoredAfter
}

// over forgets a stream that takes messages again; u.mu is held.
func (u *unstored) over(common string, v *vain, now time.Time) {
	if v == nil {
		return
	}
	if v.told {
		u.c.log.Info("NATS stores messages of a stream again", "stream", v.stream, "after", now.Sub(v.since).Round(time.Millisecond))
	}
	delete(u.of, common)
	u.any.Store(len(u.of) > 0)
}

// tell has one line of each new one in the log.
func (u *unstored) tell() {
	if !u.any.Load() {
		return
	}
	u.mu.Lock()
	untold := slices.DeleteFunc(slices.Collect(maps.Values(u.of)), func(v *vain) bool { return !v.lasts || v.told })
	u.mu.Unlock()
	for _, v := range untold {
		u.tellOf(v)
	}
}

// tellOf finds the stream's name first.
func (u *unstored) tellOf(v *vain) {
	ctx, cancel := context.WithTimeout(context.Background(), pulseEvery)
	defer cancel()
	name, err := u.c.js.StreamNameBySubject(ctx, v.subject)
	u.mu.Lock()
	defer u.mu.Unlock()
	if v.told = true; err == nil {
		v.stream = name
	}
	u.c.log.Error("NATS stores nothing in a stream, though it answers", append(u.c.where(), "stream", v.stream, "for", v.last.Sub(v.since).Round(time.Millisecond), "error", v.err, "do", unstoredCure)...)
}

// forget is for a server that is another one, or was started again.
func (u *unstored) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.of)
	u.any.Store(false)
}

// ready returns nil, or which streams take nothing.
func (u *unstored) ready(now time.Time) error {
	if !u.any.Load() {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.of, func(_ string, v *vain) bool { return now.Sub(v.last) > unstoredFor })
	u.any.Store(len(u.of) > 0)
	e := &UnstoredError{}
	for _, v := range u.of {
		if v.told {
			e.Streams, e.Err = append(e.Streams, v.stream), v.err
		}
	}
	if e.Err == nil {
		return nil
	}
	slices.Sort(e.Streams)
	e.Streams = slices.Compact(e.Streams)
	return e
}
