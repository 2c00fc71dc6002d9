package queue

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

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

// keep has a sequence keep to its grammar, if it has one.
func (g *grammars) keep(msg *pb.Sequence, seq *engine.Sequence) error {
	if !edge.Keeps(msg) {
		return nil
	}
	v, err := g.open()
	if err != nil {
		return err
	}
	c, err := v.set.Begin(edge.SpecOf(msg))
	if err == nil && c.Mask() == nil && !c.Over() {
		err = errors.New("it allows nothing")
	}
	if err != nil {
		return fmt.Errorf("grammar: %w", err)
	}
	seq.Keep(c, v.text)
	return nil
}
