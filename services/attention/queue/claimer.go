package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// claimer makes this replica the owner of a request.
type claimer struct {
	log     *tokenlog.Log
	logger  *slog.Logger
	engine  Engine
	slots   *slots
	waiting *waiting
	longest time.Duration // how long a request may take
	kept    *grammars
}

// own makes a request a sequence of this replica.
func (c *claimer) own(ctx context.Context, a *arrival) (*engine.Sequence, error) {
	switch {
	case a.hold.Lapsed():
		return nil, errLapsed
	case c.engine.Owns(ctx, a.msg.RequestId):
		return nil, errOurs
	case a.away() && c.begun(ctx, a.msg.RequestId):
		return nil, errLapsed // a sibling gave it back (members.Siblings), and somebody goes on with it
	}
	seq := c.engine.NewSequence(a.msg, a.hold, func(ids int) {
		c.slots.release()
		c.waiting.refund(a, float64(ids))
	})
	if err := c.kept.keep(a.msg, seq); err != nil {
		return seq, err
	}
	return seq, c.claim(ctx, a.msg, seq)
}

// begun reports whether somebody has begun a request. What cannot be read, claiming it tells.
func (c *claimer) begun(ctx context.Context, request string) bool {
	begun, err := c.log.Begun(ctx, request)
	return err == nil && begun
}

// claim makes this replica the owner, and takes in what the log has.
func (c *claimer) claim(ctx context.Context, msg *pb.Sequence, seq *engine.Sequence) error {
	writer, history, err := c.log.Claim(ctx, msg.RequestId, msg.Accept, c.engine.Writing(seq))
	if (errors.Is(err, tokenlog.ErrUnknown) || errors.Is(err, tokenlog.ErrNotWhole)) && c.young(msg) {
		if anew := c.log.Restart(ctx, msg.RequestId, opening(msg)); anew == nil {
			c.logger.Warn("the server has lost records of a request that it had stored; the request is computed again", "request", msg.RequestId, "error", err)
			writer, history, err = c.log.Claim(ctx, msg.RequestId, msg.Accept, c.engine.Writing(seq))
		}
	}
	if gone := unresumable(err); gone != nil {
		return &refusedError{msg, internal, gone}
	}
	if err != nil {
		return fmt.Errorf("claiming the log of %s: %w", msg.RequestId, err)
	}
	if writer.Doubtful() {
		c.logger.Warn("owner after owner made nothing of a sequence; it is stepped alone", "request", msg.RequestId, "owners", writer.Epoch())
	}
	seq.Resume(writer, history, c.longest)
	c.logger.Debug("a sequence begins here", "request", msg.RequestId, "owner", writer.Epoch(), "records", len(history))
	return nil
}

// young reports whether a request's log cannot have gone by its age.
func (c *claimer) young(msg *pb.Sequence) bool {
	return time.Since(time.Unix(0, msg.GetAccept().GetArrived())) < c.longest
}

// opening is what a sequence's log was opened with.
func opening(msg *pb.Sequence) *pb.Accept {
	asked := proto.CloneOf(msg)
	asked.Identity, asked.RequestId, asked.Accept = nil, "", nil
	opened := proto.CloneOf(msg.Accept)
	opened.Sequence = asked
	return opened
}

// unresumable is what the producer is told of a log that nobody can go on with;
// nil for all other errors.
func unresumable(err error) error {
	switch {
	case errors.Is(err, tokenlog.ErrUnknown):
		return fmt.Errorf("the request's token log is gone: it waited for longer than logs are kept (--log-age), or their stream was deleted (%w)", err)
	case errors.Is(err, tokenlog.ErrNotWhole), errors.Is(err, tokenlog.ErrFruitless), errors.Is(err, tokenlog.ErrCrashed):
		return err
	}
	return nil
}

// longest is how long a request may take: it must not outlive its log, which
// begins to go with its first record.
func longest(logAge time.Duration) time.Duration { return logAge / 4 * 3 }

// grammars has sequences keep to what their producers ask. It reads the model's tokenizer when
// the first one does: most replicas never need it.
type grammars struct {
	open func() (*vocabulary, error)
}

type vocabulary struct {
	set  *grammar.Set
	text grammar.Bytes
}

func newGrammars(m *model.Model) *grammars {
	return &grammars{sync.OnceValues(func() (*vocabulary, error) {
		t, err := tokenizer.Open(m.File)
		if err != nil {
			return nil, fmt.Errorf("loading the tokenizer for a grammar: %w", err)
		}
		template, err := chat.Open(m.File)
		if err != nil {
			return nil, fmt.Errorf("loading the chat template for a grammar: %w", err)
		}
		syntax := template.Syntax(t.ID)
		text := func(id uint32, first bool) []byte { return syntax.Bytes(id, t.AnswerBytes(id, first)) }
		return &vocabulary{grammar.NewSet(min(m.Spec.Vocab, t.Vocab()), text), text}, nil
	})}
}

// keep has a sequence keep to its grammar, if it has one. What is wrong with a grammar is told before it
// comes here, but for the work that it takes.
func (g *grammars) keep(msg *pb.Sequence, seq *engine.Sequence) error {
	if !edge.Keeps(msg) {
		return nil
	}
	v, err := g.open()
	if err != nil {
		return &refusedError{msg, internal, fmt.Errorf("%w: %w", errModel, err)}
	}
	c, err := v.set.Begin(edge.SpecOf(msg))
	if err == nil && c.Mask() == nil && !c.Over() {
		err = cmp.Or(c.Err(), errors.New("it allows nothing"))
	}
	if err != nil {
		return &refusedError{msg, string(edge.BadRequest), fmt.Errorf("grammar: %w", err)}
	}
	seq.Keep(c, v.text)
	return nil
}

// Why a sequence is not admitted. settler says what each means for it.

// errElsewhere says that a sequence is too large for this replica and is given
// back for a sibling.
var errElsewhere = errors.New("a larger replica is to take it")

// errTheirs says that a sibling has a sequence: the server was away, or hung.
var errTheirs = errors.New("another replica has the sequence")

// errOurs says that the work came again while it is being done here: a claim
// was not renewed in time, as when the server was away.
var errOurs = errors.New("this replica has the sequence")

// errLapsed says that work which waited here was not renewed in time, so that
// somebody else has it: claiming it would take it from him.
var errLapsed = errors.New("its delivery has lapsed")

// internal is an error of ours, as producers see it.
const internal = string(edge.Internal)

// refusedError is why a sequence can never be worked on.
type refusedError struct {
	seq  *pb.Sequence
	code string
	error
}

// Unwrap is why.
func (r *refusedError) Unwrap() error { return r.error }

// told is what its producer reads.
func (r *refusedError) told() string {
	if bus.IsPanic(r.error) || errors.Is(r.error, errModel) {
		return edge.Fault
	}
	return r.Error()
}

// errModel is the error of a replica that cannot read its own model.
var errModel = errors.New("the replica has a fault")

// reason is why the sequence is given up.
func (r *refusedError) reason() bus.Reason {
	switch {
	case bus.IsPanic(r.error):
		return bus.Panicked
	case errors.Is(r.error, tokenlog.ErrCrashed):
		return bus.Crashed
	case errors.Is(r.error, tokenlog.ErrFruitless):
		return bus.Deliveries
	}
	return bus.Refused
}

// errUnreadable says that a message is no sequence.
var errUnreadable = errors.New("unreadable sequence")

// foreignError says that a sequence is of another kind.
type foreignError struct {
	seq       *pb.Sequence
	delivered int
	error
}

// Unwrap is how the sequence differs.
func (f *foreignError) Unwrap() error { return f.error }

const (
	// elsewherePause is the pause before a sequence that was given back comes
	// again, perhaps to the same replica: it grows with each time.
	elsewherePause    = 50 * time.Millisecond
	maxElsewherePause = time.Second
)

func toSibling(delivered int) error {
	return bus.RetryAfter(min(elsewherePause*time.Duration(delivered), maxElsewherePause), errElsewhere)
}
