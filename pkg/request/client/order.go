package client

import (
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxEarly bounds the chunks that are kept because others are missing before
// them; a replay brings again what is beyond it.
const maxEarly = 4096

// maxEnds is how often a terminal chunk may come before what it ends.
const maxEnds = 10

// order puts chunks in order and drops those seen before. It does no I/O.
//
// Tokens and scores count separately. A terminal chunk is last: it waits for
// everything before it, so that a stream with a hole has no end.
type order struct {
	tokens, scores series
	scored         bool // scores were asked for
	last           *pb.Chunk
	ends           int // how often the terminal chunk came
	ended          bool
}

// newOrder expects tokens from an index on.
func newOrder(from int32, scored bool) *order {
	return &order{tokens: newSeries(from), scores: newSeries(0), scored: scored}
}

// add returns the chunks that are due after c has come. None comes after the terminal one.
func (o *order) add(c *pb.Chunk) ([]*pb.Chunk, error) {
	if o.ended {
		return nil, nil
	}
	ready, err := o.place(c)
	if err != nil {
		return nil, err
	}
	if o.last != nil && o.complete(o.last) {
		o.ended = true
		ready = append(ready, o.last)
	}
	return ready, nil
}

func (o *order) place(c *pb.Chunk) ([]*pb.Chunk, error) {
	switch {
	case c.FinishReason != "":
		return nil, o.end(c)
	case c.Score != nil:
		return o.scores.add(c, c.Score.Position, c.Score.Position)
	default:
		return o.tokens.add(c, first(c), c.Index)
	}
}

// end notes the terminal chunk. A server that ends an answer again and again
// without what is before the end will not bring it.
func (o *order) end(c *pb.Chunk) error {
	o.last = c
	if o.ends++; o.ends > maxEnds && !o.complete(c) {
		return fmt.Errorf("the end of the answer came %d times, but never its token %d", o.ends, o.tokens.next)
	}
	return nil
}

// first returns the index of a chunk's first token.
func first(c *pb.Chunk) int32 {
	return c.Index - int32(max(1, len(c.TokenIds))) + 1
}

// complete reports whether nothing is missing before the terminal chunk c. One
// that brings tokens lists their ids. Without ids its index is the one after
// the last token, or none (-1), and its usage counts the tokens.
func (o *order) complete(c *pb.Chunk) bool {
	before := max(c.Index, c.GetUsage().GetCompletionTokens()) // tokens that must have come
	if len(c.TokenIds) > 0 {
		before = first(c)
	}
	return o.tokens.next >= before && !o.lacksScores()
}

// untouched reports whether no chunk has come yet.
func (o *order) untouched() bool {
	return o.tokens.count == 0 && o.scores.count == 0 && o.last == nil
}

// lacksScores reports whether the terminal chunk has come and not all scores.
func (o *order) lacksScores() bool {
	whole := o.last != nil && (o.last.FinishReason == "stop" || o.last.FinishReason == "length")
	return o.scored && whole && o.scores.next < o.last.GetUsage().GetPromptTokens()
}

// gap reports whether something is known to be missing.
func (o *order) gap() bool {
	return !o.ended && (o.last != nil || len(o.tokens.early) > 0 || len(o.scores.early) > 0)
}

// from returns the index to ask a replay from. Scores come before all tokens, so
// that a replay which must bring them begins at the first token.
func (o *order) from() int32 {
	if o.lacksScores() || len(o.scores.early) > 0 {
		return 0
	}
	return o.tokens.next
}

// series puts chunks of one kind in the order of their indices.
type series struct {
	next  int32
	count int                 // chunks that came, repeats too
	early map[int32]*pb.Chunk // by first index; nil: none was early yet
}

func newSeries(from int32) series { return series{next: from} }

// add takes a chunk with the indices from first to last, and returns those that are due.
func (l *series) add(c *pb.Chunk, first, last int32) (ready []*pb.Chunk, err error) {
	l.count++
	switch {
	case last < l.next:
		return nil, nil
	case first < l.next:
		return nil, fmt.Errorf("a chunk has tokens %d to %d, but those before %d came in another chunk", first, last, l.next)
	case first > l.next:
		if l.early == nil {
			l.early = map[int32]*pb.Chunk{}
		}
		if len(l.early) < maxEarly {
			l.early[first] = c
		}
		return nil, nil
	}
	for c != nil {
		ready = append(ready, c)
		l.next = last + 1
		delete(l.early, first)
		first = l.next
		if c = l.early[first]; c != nil {
			last = lastOf(c)
		}
	}
	return ready, nil
}

func lastOf(c *pb.Chunk) int32 {
	if c.Score != nil {
		return c.Score.Position
	}
	return c.Index
}
