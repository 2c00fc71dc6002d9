package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// large messages, of which a hundred would have a server close the connection
// of a client that is slow to read.
const (
	large  = 700 << 10
	larges = 60
)

func (r *rig) storeLarge(subject string) {
	r.t.Helper()
	for range larges {
		if _, err := r.conn.Store(r.ctx(), subject, hidden(large), nil); err != nil {
			r.t.Fatal(err)
		}
	}
}

// brought is what the connection has got since it had so many bytes, once the server has
// done with what the stream's only consumer asked for, and all of that has come.
func (r *rig) brought(stream string, before uint64) uint64 {
	r.t.Helper()
	s, err := r.conn.js.Stream(r.ctx(), stream)
	if err != nil {
		r.t.Fatal(err)
	}
	var of *jetstream.ConsumerInfo
	testkit.Eventually(r.t, "the end of the request", func() bool {
		for of = range s.ListConsumers(r.ctx()).Info() {
		}
		return of != nil && (of.NumWaiting == 0 || of.NumPending == 0)
	})
	testkit.Eventually(r.t, "all that was sent", func() bool {
		return r.conn.nc.Stats().InBytes-before >= of.Delivered.Consumer*large
	})
	if err := r.conn.nc.FlushWithContext(r.ctx()); err != nil {
		r.t.Fatal(err)
	}
	return r.conn.nc.Stats().InBytes - before
}

// Who reads one message is not sent all that there are, but what two requests
// may bring, and gets all of them in the end.
func TestFollowAsksForBytes(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	if err := r.conn.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	r.storeLarge(s.Subjects.Token("r"))
	n, before := 0, r.conn.nc.Stats().InBytes
	err := r.conn.Follow(r.ctx(), s.Tokens().Name, []string{s.Subjects.Token("r")}, Place{}, func(Stored) bool {
		if n++; n == 1 {
			if got := r.brought(s.Tokens().Name, before); got > 2*pullBytes {
				t.Errorf("%d bytes came while the first message was read", got)
			}
		}
		return n < larges
	})
	if err != nil || n != larges {
		t.Errorf("%d of %d messages, error %v", n, larges, err)
	}
}

func TestQueueAsksForBytes(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	r.storeLarge(s.Subjects.Sequence())
	for n := 0; n < larges; {
		before := r.conn.nc.Stats().InBytes
		ds, err := q.Pull(r.ctx(), larges)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.conn.nc.Stats().InBytes - before; got > pullBytes+1<<20 {
			t.Errorf("a pull of %d messages brought %d bytes", len(ds), got)
		}
		for _, d := range ds {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
		n += len(ds)
	}
}
