package engine

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// content is a sequence's ids, and what is to be done with each.
type content struct {
	seq    *pb.Sequence
	ids    []uint32 // prompt and generated tokens
	done   int      // of ids: those that went through the layers
	scored int      // prompt positions whose scores are in the log
}

func (c *content) prompt() int    { return len(c.seq.PromptIds) }
func (c *content) generated() int { return len(c.ids) - c.prompt() }
func (c *content) pending() int   { return c.rows() - c.done }
func (c *content) decoding() bool { return c.pending() == 1 && c.unread() == 0 }
func (c *content) scores() bool   { return c.seq.Score != "" }

// logged is how many of the rows, the first ones, are in the records of tokens.
func (c *content) logged() int {
	if c.generated() > 0 && !c.fills() {
		return len(c.ids) - 1
	}
	return 0
}

// source is how many ids an encoder reads, unread how many it has yet to.
func (c *content) source() int { return int(c.seq.Source) }
func (c *content) unread() int { return max(0, c.source()-c.done) }

// fills says that tokens fill places of the prompt; they pass no layer themselves.
func (c *content) fills() bool { return c.source() == c.prompt() }

// rows is how many ids pass the layers.
func (c *content) rows() int {
	if c.fills() {
		return c.prompt()
	}
	return len(c.ids)
}

// extent is how many positions the ids that it has need in the KV cache.
func (c *content) extent() int { return max(c.source(), c.rows()-c.source()) }

// positions is the most that the sequence will ever need in the KV cache.
func (c *content) positions() int { return edge.Positions(c.seq) }

// chooses says whether the logits of id at, which may be a drafted one, are for choosing a token.
func (c *content) chooses(at int) bool {
	return c.place(at) >= 0 || at >= len(c.ids)-1 && !c.fills()
}

// place is which of the sequence's tokens fills a position; -1: none, or it has.
func (c *content) place(at int) int {
	i, ok := slices.BinarySearch(c.seq.Fill, uint32(at))
	if !ok || i < c.generated() || i >= int(c.seq.MaxTokens) {
		return -1
	}
	return i
}

func (c *content) wantsScore(pos int) bool {
	return c.scores() && pos < c.prompt() && pos >= c.scored
}

// withLogits is how many of the pending rows want logits; they are the last ones.
func (c *content) withLogits() int {
	switch {
	case c.unread() > 0 && !c.fills():
		return 0
	case !c.scores():
		return max(1, len(c.seq.Fill))
	}
	return max(1, c.prompt()-max(c.done, c.scored))
}

// said is what a repetition repeats of tokens up to at: what a decoder has seen and made.
func (c *content) said(tokens []uint32, at int) []uint32 {
	if c.fills() {
		return c.seq.PromptIds
	}
	return tokens[c.source() : at+1]
}

// index is which token id at chooses.
func (c *content) index(at int) int {
	if i := c.place(at); i >= 0 {
		return i
	}
	return c.generated() + at - (len(c.ids) - 1)
}
