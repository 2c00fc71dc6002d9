package engine

import (
	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// kept is the grammar that an answer keeps to, and where in it the answer stands. It follows
// the answer's tokens alone: an owner that takes the sequence over reads them from the log.
type kept struct {
	cursor *grammar.Cursor // nil: none
	text   grammar.Bytes
}

// Keep has the answer keep to a grammar. It is called before Resume; text is what tokens add.
func (s *Sequence) Keep(c *grammar.Cursor, text grammar.Bytes) { s.kept = kept{c, text} }

// read takes a token in.
func (k *kept) read(t *pb.Token) {
	if k.cursor != nil && !t.Stop {
		k.cursor.Read(k.text(t.Id, t.Index == 0))
	}
}

// restrict bars the tokens that the grammar does not allow next. ok is false if it allows none.
func (k *kept) restrict(p sampling.Params) (out sampling.Params, ok bool) {
	if k.cursor == nil {
		return p, true
	}
	p.Allowed, p.MayEnd = k.cursor.Mask(), k.cursor.Over()
	ok = p.MayEnd
	for _, word := range p.Allowed {
		ok = ok || word != 0
	}
	return p, ok
}

// stuck ends an answer that no token of the vocabulary can go on with.
func stuck() *pb.Terminal {
	return ErrorEnd("bad_request", "no token of the model's vocabulary goes on with the answer as the grammar asks: allow more characters in it")
}
