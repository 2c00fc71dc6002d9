package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/switchyard/switchyard/internal/pause"
)

const (
	// followBatch is how many messages a Follow has asked for, and followOne of a single
	// subject: thousands of those may be followed at a time, by readers that are slow.
	followBatch, followOne = 256, 32
	// followIdle is how long the server keeps a Follow's consumer without it.
	followIdle = 10 * time.Second
)

// Follow calls fn for the messages of a stream that match any of subjects, in order
// and without a gap, from behind a place on and then live, until fn returns
// false or ctx ends (an error then). It goes on after reconnects and restarts:
// the consumer is made anew behind the last message that fn saw. In a stream
// that was made anew there is no such message: that is ErrReplaced, and a LostEndError
// where the stream has lost its end. fn runs on
// the caller's goroutine.
func (c *Conn) Follow(ctx context.Context, stream string, subjects []string, after Place, fn func(Stored) (more bool)) error {
	subject := strings.Join(subjects, " and ")
	f := &follower{c: c, stream: stream, subjects: subjects, read: after, next: after.Sequence + 1, batch: batchOf(subjects), fn: fn, within: firstAttempt, since: time.Now()}
	t := c.trouble("following " + subject)
	for pauses := pause.Between(firstWait, lastWait); ; {
		before, begun := f.next, time.Now()
		done, err := f.follow(ctx)
		if done {
			return nil
		}
		if errors.Is(err, ErrReplaced) {
			return fmt.Errorf("following %s: %w", subject, err)
		}
		if ctx.Err() != nil || c.nc.IsClosed() {
			return fmt.Errorf("following %s: %w", subject, errors.Join(ctx.Err(), err))
		}
		if f.next > before || time.Since(begun) > createWithin { // it had worked
			f.within, f.since = firstAttempt, time.Now()
			pauses.Reset()
			t.over()
		}
		t.is(err)
		_ = c.pause(ctx, pauses.Next()) // what ends it ends the next attempt, too
	}
}

// batchOf is how many messages of some subjects are asked for at a time.
func batchOf(subjects []string) int {
	if len(subjects) == 1 && !strings.ContainsAny(subjects[0], "*>") {
		return followOne
	}
	return followBatch
}

type follower struct {
	c        *Conn
	stream   string
	subjects []string
	next     uint64 // stream sequence to go on from
	// read is the place before that; its stream is not known before the first consumer.
	read Place
	fn   func(Stored) bool

	ref       consumerRef // the current consumer
	delivered uint64      // by it
	asked     int
	batch     int
	within    time.Duration // bounds the next attempt at creating one
	since     time.Time     // of the first attempt
	behind    time.Time     // since when the stream lacks what was read of it; zero: it does not
}

var errBehind = errors.New("the stream's leader has not caught up with what was read of it")

// follow reads through one consumer until that fails.
func (f *follower) follow(ctx context.Context) (done bool, err error) {
	reconnected := f.c.Reconnection()
	arrived := make(chan *nats.Msg, 2*f.batch)
	inbox := f.c.nc.NewInbox()
	sub, err := f.c.nc.ChanSubscribe(inbox, arrived)
	if err != nil {
		return false, fmt.Errorf("subscribing: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails when the connection is closed
	f.ref = refTo(f.stream, "follow-"+nuid.Next())
	api := apiPrefix(f.c.js)
	// Also one that is made after nobody waited for it any more; else it ages.
	defer func() { _ = f.c.post(api+"CONSUMER.DELETE."+f.stream+"."+f.ref.name, "", nil) }()
	if err := f.create(ctx); err != nil {
		return false, err
	}
	return f.take(ctx, arrived, reconnected, api+"CONSUMER.MSG.NEXT."+f.stream+"."+f.ref.name, inbox)
}

func (f *follower) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.within)
	defer cancel()
	f.within = min(2*f.within, f.c.longestAttempt(f.since))
	_, err := f.c.js.CreateConsumer(ctx, f.stream, f.consumer())
	f.delivered, f.asked = 0, 0
	if err != nil {
		return fmt.Errorf("creating a consumer: %w", err)
	}
	return f.recognise(ctx)
}

func (f *follower) consumer() jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Name: f.ref.name, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next,
		InactiveThreshold: followIdle, MemoryStorage: true, Replicas: 1,
	}
	if len(f.subjects) == 1 { // then the request's subject has it, for the server to check
		c.FilterSubject = f.subjects[0]
	} else {
		c.FilterSubjects = f.subjects
	}
	return c
}

// recognise looks, once the consumer is there, whether it is one of the stream
// that was followed so far.
func (f *follower) recognise(ctx context.Context) error {
	state, err := f.c.State(ctx, f.stream)
	if err != nil {
		return err
	}
	next, err := f.later(ctx, state)
	if err != nil {
		return err
	}
	switch err := f.read.in(state, f.stream, next); {
	case err == nil:
		f.read.Incarnation, f.behind = state.Incarnation, time.Time{}
		return nil
	case f.mayCatchUp(state):
		return errBehind
	default:
		return err
	}
}

// later is the number of the stream's first message that is later than those which were read; 0: there is none. A consumer's
// beginning tells it, so that it takes no right beyond those of reading.
func (f *follower) later(ctx context.Context, s StreamState) (uint64, error) {
	if f.read.Time.IsZero() {
		return 0, nil
	}
	c, from := f.consumer(), f.read.Time.Add(1)
	c.Name, c.DeliverPolicy, c.OptStartSeq, c.OptStartTime = "later-"+nuid.Next(), jetstream.DeliverByStartTimePolicy, 0, &from
	defer func() { _ = f.c.post(apiPrefix(f.c.js)+"CONSUMER.DELETE."+f.stream+"."+c.Name, "", nil) }() // else it ages
	made, err := f.c.js.CreateConsumer(ctx, f.stream, c)
	if err != nil {
		return 0, fmt.Errorf("looking for the first message behind a time: %w", err)
	}
	if next := made.CachedInfo().Delivered.Stream + 1; next <= s.Last {
		return next, nil
	}
	return 0, nil
}

// mayCatchUp reports whether a stream that lacks its end may be one whose server
// has not caught up with the others of its cluster.
func (f *follower) mayCatchUp(s StreamState) bool {
	if f.behind.IsZero() {
		f.behind = time.Now()
	}
	return f.c.Clustered() && s.Incarnation == f.read.Incarnation && s.Last < f.read.Sequence && time.Since(f.behind) < SettlesWithin
}

func (f *follower) take(ctx context.Context, arrived <-chan *nats.Msg, reconnected <-chan struct{}, next, inbox string) (done bool, err error) {
	silence := time.NewTimer(silentAfter)
	defer silence.Stop()
	for {
		if f.asked <= f.batch/2 {
			if err := f.c.pull(next, inbox, pullRequest{batch: f.batch - f.asked, expires: pullExpires, bytes: f.c.pullBytes()}); err != nil {
				return false, fmt.Errorf("asking for messages: %w", err)
			}
			f.asked = f.batch
		}
		select {
		case m := <-arrived:
			silence.Reset(silentAfter)
			if done, err := f.receive(m); done || err != nil {
				return done, err
			}
		case <-silence.C:
			if len(arrived) > 0 { // fn took long
				silence.Reset(silentAfter)
				continue
			}
			return false, jetstream.ErrNoHeartbeat
		case <-reconnected:
			return false, nats.ErrDisconnected // what was on its way is lost
		case <-f.c.closed:
			return false, nats.ErrConnectionClosed
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (f *follower) receive(m *nats.Msg) (done bool, err error) {
	a, err := f.ref.arrival(m)
	if err != nil {
		f.c.refuse(m, err)
		return false, nil
	}
	switch {
	case a.status == "":
		return f.deliver(a)
	case a.status == "404", a.status == "408", hadItsBytes(a), hadItsMessages(a):
		f.asked -= pendingOf(m)
	default:
		err = statusError(a)
	}
	return false, err
}

// deliver passes a message on; a gap in the consumer's numbers ends it.
func (f *follower) deliver(a arrival) (done bool, err error) {
	o, err := a.origin()
	if err != nil {
		f.c.refuse(a.msg, err)
		return false, nil
	}
	if f.delivered++; o.number != f.delivered {
		return false, fmt.Errorf("message %d of consumer came as number %d", o.number, f.delivered)
	}
	f.asked--
	f.next = o.sequence + 1
	m := Stored{Subject: a.msg.Subject, Data: a.msg.Data, Sequence: o.sequence, Incarnation: f.read.Incarnation, Time: o.stored}
	f.read = f.read.Behind(m)
	return !f.call(m), nil
}

// call passes a message to fn. One that makes it panic is passed over.
func (f *follower) call(m Stored) (more bool) {
	more = true
	_ = f.c.Try(m.Subject, func() error { more = f.fn(m); return nil }) // counted and logged there
	return more
}
