package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ackTable matches the acknowledgements of asynchronous publishes with their
// callbacks: one subscription and one ticker for all of a connection, where the
// client library spends two channels and a timer on each.
type ackTable struct {
	sub    *nats.Subscription
	prefix string
	trial  *streak // is told of what came, and of what did not
	vain   *unstored

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]waiter
	closed  bool
}

type waiter struct {
	done    func(seq uint64, err error)
	subject string
	since   time.Time
}

func newAckTable(c *Conn) (*ackTable, error) {
	t := &ackTable{prefix: c.nc.NewInbox() + ".", trial: &c.trials.storing, vain: &c.unstored, waiting: map[uint64]waiter{}}
	sub, err := c.nc.Subscribe(t.prefix+"*", t.handle)
	if err != nil {
		return nil, fmt.Errorf("subscribing to acknowledgements: %w", err)
	}
	// A burst is bounded by its publishers, not here.
	_ = sub.SetPendingLimits(-1, -1) // fails on a closed subscription only
	t.sub = sub
	return t, nil
}

// add returns an id and the reply subject for one publish.
func (t *ackTable) add(subject string, done func(uint64, error)) (id uint64, reply string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, "", fmt.Errorf("publishing: %w", nats.ErrConnectionClosed)
	}
	t.next++
	t.waiting[t.next] = waiter{done: done, subject: subject, since: time.Now()}
	return t.next, t.prefix + strconv.FormatUint(t.next, 36), nil
}

func (t *ackTable) take(id uint64) (waiter, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.waiting[id]
	delete(t.waiting, id)
	return w, ok
}

func (t *ackTable) drop(id uint64) bool {
	_, ok := t.take(id)
	return ok
}

func (t *ackTable) handle(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, t.prefix), 36, 64)
	if err != nil {
		return // not one of ours
	}
	if w, ok := t.take(id); ok {
		seq, err := parseAck(m)
		now := time.Now()
		t.trial.note(err, now)
		t.vain.note(w.subject, err, now)
		w.done(seq, err)
	}
}

func parseAck(m *nats.Msg) (seq uint64, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, jetstream.ErrNoStreamResponse
	}
	if seq, ok := quickAck(m.Data); ok {
		return seq, nil
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("reading an acknowledgement: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Seq == 0 {
		return 0, errors.New("acknowledgement without a sequence")
	}
	return ack.Seq, nil
}

// quickAck reads the form that nearly every acknowledgement has, {"stream":"NAME","seq":123}
// with or without a space behind the comma, without the cost of a JSON decoder. It takes
// nothing else: an error may stand between the two, and a larger number would wrap around.
func quickAck(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	name, rest, closed := bytes.Cut(rest, []byte(`",`))
	digits, named := bytes.CutPrefix(bytes.TrimPrefix(rest, []byte(" ")), []byte(`"seq":`))
	if !ok || !closed || !named || bytes.ContainsAny(name, `"\`) || len(digits) < 2 || len(digits) > maxDigits+1 || digits[len(digits)-1] != '}' {
		return 0, false
	}
	for _, d := range digits[:len(digits)-1] {
		if d < '0' || d > '9' {
			return 0, false
		}
		seq = seq*10 + uint64(d-'0')
	}
	return seq, digits[0] != '0'
}

// maxDigits are those of the numbers that fit 64 bits, whichever they are.
const maxDigits = 19

// failAll ends every wait: after a disconnect no acknowledgement comes.
func (t *ackTable) failAll(err error) {
	t.mu.Lock()
	failed := t.waiting
	t.waiting = map[uint64]waiter{}
	t.mu.Unlock()
	for _, w := range failed {
		w.done(0, err)
	}
}

// expire ends waits that took too long, which a dead server or a stream
// without a leader causes.
func (t *ackTable) expire(now time.Time) {
	for _, w := range t.expired(now) {
		t.trial.note(ErrAckLost, now)
		t.vain.note(w.subject, ErrAckLost, now)
		w.done(0, ErrAckLost)
	}
}

func (t *ackTable) expired(now time.Time) (late []waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, w := range t.waiting {
		if now.Sub(w.since) > ackTimeout {
			late = append(late, w)
			delete(t.waiting, id)
		}
	}
	return late
}

func (t *ackTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.failAll(nats.ErrConnectionClosed)
}
