package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// unkeptPrefix begins the subjects of records that no stream keeps.
const unkeptPrefix = "unkept."

// Unkept are token logs that nobody keeps: their records pass core NATS to whoever
// follows them, and no stream. A pipeline with them makes the same tokens, and loses
// every request that any of its processes had. Of a log there is only its
// acceptance, in this process's memory, which the request's owner asks for once.
type Unkept struct {
	last     atomic.Uint64 // sequence that was given to a record
	accepted sync.Map      // bus.Stored by subject
	followed atomic.Bool   // all of them, by one follower
}

// On returns the logs for a connection of this process.
func (u *Unkept) On(c *bus.Conn) bus.LogStore {
	p := &passing{Conn: c, logs: u}
	p.listen = sync.OnceValues(p.subscribe)
	return p
}

// await returns when all shards are followed: what comes earlier nobody gets.
func (u *Unkept) await(ctx context.Context) error {
	for !u.followed.Load() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for followers of the token logs: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// passed is the incarnation of what no stream has.
const passed = 1

// passing are the logs as one connection writes and reads them.
type passing struct {
	*bus.Conn
	logs *Unkept
	// listen is one subscription for all followers, who follow one after the other: what
	// comes between two of them is not lost. It ends with the connection.
	listen func() (*nats.Subscription, error)
}

func (p *passing) subscribe() (*nats.Subscription, error) {
	sub, err := p.NATS().SubscribeSync(unkeptPrefix + ">")
	if err == nil {
		_ = sub.SetPendingLimits(-1, -1) // fails on a closed subscription only
		err = p.NATS().Flush()
	}
	return sub, err
}

// StoreAsync passes a token or an end on.
func (p *passing) StoreAsync(ctx context.Context, subject string, data []byte, _ nats.Header, done func(seq uint64, err error)) error {
	if err := p.SendBytes(ctx, unkeptPrefix+subject, data, nil); err != nil {
		return err
	}
	seq := p.logs.last.Add(1)
	go done(seq, nil) // it may wait for who called
	return nil
}

// StoreBytes passes an acceptance or a claim on. One record in place of all others
// comes when the request has ended and was delivered: then the log is forgotten.
func (p *passing) StoreBytes(ctx context.Context, subject string, data []byte, header nats.Header) (seq uint64, err error) {
	seq = p.logs.last.Add(1)
	if len(header[jetstream.MsgRollup]) > 0 {
		p.logs.accepted.Delete(subject)
		return seq, nil
	}
	p.logs.accepted.LoadOrStore(subject, bus.Stored{Subject: subject, Data: data, Sequence: seq, Time: time.Now()})
	return seq, p.SendBytes(ctx, unkeptPrefix+subject, data, nil)
}

// State is the stream's, as if it had what has passed.
func (p *passing) State(ctx context.Context, stream string) (bus.StreamState, error) {
	s, err := p.Conn.State(ctx, stream)
	s.Incarnation, s.Last = passed, p.logs.last.Load()
	return s, err
}

// Last is the log's acceptance.
func (p *passing) Last(_ context.Context, _, subject string) (bus.Stored, error) {
	m, _ := p.logs.accepted.Load(subject)
	accepted, ok := m.(bus.Stored)
	if !ok {
		return accepted, bus.ErrNoMessage
	}
	return accepted, nil
}

// Next is the log's acceptance, or, of what came later, when that was: all that who
// claims a log wants of his claim.
func (p *passing) Next(ctx context.Context, stream, subject string, from uint64) (bus.Stored, error) {
	m, err := p.Last(ctx, stream, subject)
	if err == nil && from > m.Sequence {
		m = bus.Stored{Subject: subject, Sequence: from, Time: time.Now()}
	}
	return m, err
}

// Follow calls fn for what passes from now on, until fn returns false or ctx ends. Who
// follows one request, for a reader who asks again, gets nothing: that reader has missed
// nothing, and what he would take is the shards' followers'.
func (p *passing) Follow(ctx context.Context, _ string, subjects []string, _ bus.Place, fn func(bus.Stored) (more bool)) error {
	what := strings.Join(subjects, " and ")
	if !strings.HasSuffix(what, ".*") {
		<-ctx.Done()
		return fmt.Errorf("following %s: %w", what, ctx.Err())
	}
	sub, err := p.listen()
	if err != nil {
		return fmt.Errorf("following %s: %w", what, err)
	}
	p.logs.followed.Store(strings.HasSuffix(what, ".*.*"))
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("following %s: %w", what, err)
		}
		if !fn(bus.Stored{Subject: m.Subject[len(unkeptPrefix):], Data: m.Data, Sequence: p.logs.last.Add(1), Incarnation: passed, Time: time.Now()}) {
			return nil
		}
	}
}
