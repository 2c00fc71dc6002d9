package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// A prompt that came again may be what took a replica down, or have been beside
// it: deliveries count for all that a replica had. So it is tried first, alone:
// decoded and tokenized while this replica does that with no other, under a record
// in the bucket `trials`. A record that another replica has left behind is a death
// that this prompt alone can have caused: so nothing else computes from before the
// record may be stored until it is gone. What else is asked of the bucket goes on beside
// others, and first of all whether it answers. While it does not, others do not wait for
// ever: a record may stay that another replica takes for a death.

const (
	// maxDeaths bounds the replicas that a prompt takes down while it is tried.
	maxDeaths = 2
	// maxDeliveries bounds the deliveries of a prompt whose trials end well. Beside it,
	// all others that a replica takes at once may have taken down as many as they may.
	maxDeliveries = 1 + maxDeaths*promptsAtOnce
	// recordWithin bounds an access to a trial's record; other prompts wait for two.
	recordWithin = 2 * time.Second
)

// isolation lets prompts be computed beside others, or one alone, under a record.
type isolation struct {
	trials    jetstream.KeyValue
	self      string       // this replica
	computing sync.RWMutex // prompts are decoded and tokenized side by side, suspects alone
}

// beside waits until none is computed alone; release lets one be again.
func (i *isolation) beside() (release func()) {
	i.computing.RLock()
	return i.computing.RUnlock
}

// kept is what the bucket has of a prompt.
type kept struct {
	key      string
	record   []byte
	revision uint64
}

// attempt is a trial's record: which replica tries a prompt, and how many have by then.
type attempt struct {
	number  int
	replica string
}

// String is the record: the number, a space, the replica.
func (a attempt) String() string { return strconv.Itoa(a.number) + " " + a.replica }

// parseAttempt reads a record; what is none is no attempt.
func parseAttempt(record []byte) attempt {
	digits, replica, _ := strings.Cut(string(record), " ")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxDeaths+1 || !schemas.IsReplicaID(replica) {
		return attempt{}
	}
	return attempt{n, replica}
}

// deaths is how many replicas have gone away in trials, as the replica sees it that
// finds the record: one of its own says only that it could not be removed.
func (a attempt) deaths(replica string) int {
	if a.replica == replica {
		return a.number - 1
	}
	return a.number
}

// alone calls compute under a record in the place of another one, beside nothing else.
func (i *isolation) alone(ctx context.Context, before kept, a attempt, compute func() error) error {
	i.computing.Lock()
	defer i.computing.Unlock()
	if err := i.record(ctx, before, a); err != nil {
		return errors.Join(err, i.unrecord(ctx, before, a))
	}
	return compute()
}

// deaths is how many replicas have gone away in trials of a prompt. What says so is
// written again as it is, under a new revision: so a bucket that takes nothing is found
// out before others wait for it.
func (i *isolation) deaths(ctx context.Context, key string) (deaths int, now kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	e, err := i.trials.Get(ctx, key)
	switch {
	case err == nil:
		now = kept{key: key, record: e.Value()}
		deaths = parseAttempt(now.record).deaths(i.self)
		now.revision, err = i.trials.Update(ctx, key, now.record, e.Revision())
	case errors.Is(err, jetstream.ErrKeyNotFound):
		now = kept{key: key, record: []byte(attempt{0, i.self}.String())}
		now.revision, err = i.trials.Create(ctx, key, now.record)
	}
	if err != nil {
		return 0, kept{}, fmt.Errorf("looking who tried the prompt before: %w", err)
	}
	return deaths, now, nil
}

// record says that this replica tries a prompt, also when this replica is stopping: a write that none
// waits for may be stored all the same.
func (i *isolation) record(ctx context.Context, before kept, a attempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if _, err := i.trials.Update(ctx, before.key, []byte(a.String()), before.revision); err != nil {
		return fmt.Errorf("recording that the prompt is tried: %w", err)
	}
	return nil
}

// unrecord puts back what the bucket had before a record that may be stored all the same:
// deaths before it go on counting, and the record of a replica that came between stays.
func (i *isolation) unrecord(ctx context.Context, before kept, a attempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	e, err := i.trials.Get(ctx, before.key)
	if err == nil && string(e.Value()) == a.String() {
		_, err = i.trials.Update(ctx, before.key, before.record, e.Revision())
	}
	if err != nil {
		return fmt.Errorf("taking back that the prompt is tried: %w", err)
	}
	return nil
}

// forget removes the record of a trial that has ended well, also when this replica
// is stopping: else it would count as a death.
func (i *isolation) forget(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err := i.trials.Delete(ctx, key); err != nil {
		return fmt.Errorf("recording that the prompt was tried: %w", err)
	}
	return nil
}

// trialKey names a prompt, also after its stream was made anew.
func trialKey(d *bus.Delivery) string {
	return fmt.Sprintf("%d-%d", d.Sequence, d.Timestamp.UnixNano())
}

// try finds out whether a prompt that came again can be handled. An error says that
// it is given up, or that this could not be found out.
func (s *Prompts) try(ctx context.Context, d *bus.Delivery) error {
	if d.Delivered == 1 {
		return nil
	}
	deaths, before, err := s.deaths(ctx, trialKey(d))
	if err != nil {
		return err
	}
	if deaths > maxDeaths {
		return s.giveUpUnread(d, bus.Crashed, fmt.Sprintf("the prompt was given up: %d replicas that worked on it alone went away", deaths))
	}
	alone := func(compute func() error) error {
		return s.alone(ctx, before, attempt{deaths + 1, s.replica}, compute)
	}
	if deaths == maxDeaths {
		return s.giveUpTried(ctx, d, deaths, alone)
	}
	return alone(func() error {
		// A panic is met again by what handles the prompt after this.
		_ = s.d.Conn.Try(d.Subject, func() error { s.rehearse(d); return nil })
		return s.forget(ctx, before.key)
	})
}

// rehearse does what of a prompt's handling depends on its content.
func (s *Prompts) rehearse(d *bus.Delivery) {
	if p, err := s.readPrompt(d); err == nil {
		_, _ = s.model.Resolve(p.prompt, s.probe.Streams.Clock.Now(), rand.Uint32())
	}
}

// giveUpTried gives up what took others down. The record of that stays, as reading it
// once more may end this replica.
func (s *Prompts) giveUpTried(ctx context.Context, d *bus.Delivery, deaths int, alone func(func() error) error) error {
	var p *incoming
	var unreadable error
	if err := alone(func() error { p, unreadable = s.readPrompt(d); return nil }); err != nil {
		return err
	}
	if unreadable != nil {
		return s.giveUpUnread(d, bus.Crashed, unreadable.Error())
	}
	return s.giveUp(ctx, p, bus.Crashed, fmt.Sprintf("the prompt was given up: %d replicas that worked on it alone went away", deaths))
}

// giveUpUnread gives up what may not be read, as far as its headers tell whom to tell.
func (s *Prompts) giveUpUnread(d *bus.Delivery, reason bus.Reason, why string) error {
	in := &incoming{reply: d.Headers.Get(schemas.HeaderReplyTo), sequence: d.Sequence}
	if in.reply != "" && s.delivery.Sender.MayReply(in.destination()) != nil {
		in.reply = ""
	}
	cause := edge.Errorf(edge.Internal, "%s", why)
	s.count(cause)
	if err := s.refuse(in, cause); err != nil {
		return err
	}
	return bus.GiveUp(reason, cause)
}
