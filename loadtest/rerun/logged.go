package rerun

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Logged is a request as its log has it.
type Logged struct {
	Sequence *pb.Sequence
	Tokens   []uint32
	// Class is the numeric class of the replicas that answered, Wire the element type of rows between them; empty: a release before
	// has opened the log.
	Class, Wire string
	rows        []row // what became of each row; none: each slot had its own expert
}

// row is what became of a row, (layers with experts, slots); no codes: each slot had its own expert.
type row struct {
	codes []wire.FateCode
	of    plan.Bundle
}

// Read takes a request from its log's records.
func Read(entries []tokenlog.Entry, spec *model.Spec) (*Logged, error) {
	l := &Logged{}
	for _, e := range entries {
		switch k := e.Record.Kind.(type) {
		case *pb.Record_Accept:
			if err := l.accept(k.Accept, spec); err != nil {
				return nil, err
			}
		case *pb.Record_Token:
			if l.Sequence == nil {
				return nil, errors.New("its log has tokens and no acceptance, which says what was asked")
			}
			if err := l.token(k.Token, spec); err != nil {
				return nil, fmt.Errorf("token %d: %w", k.Token.Index, err)
			}
		}
	}
	if l.Sequence == nil {
		return nil, errors.New("its log has no acceptance, which says what was asked")
	}
	return l, nil
}

// accept takes what was asked in. Memory and loops follow its numbers.
func (l *Logged) accept(a *pb.Accept, spec *model.Spec) error {
	switch {
	case a.Sequence == nil:
		return errors.New("its log has no prompt: a release before this one has opened it, or it never began")
	case a.MixedClasses:
		return errors.New("replicas of several numeric classes have computed it together (--mixed-classes): its bits depend on which of them had each row")
	}
	limits := edge.Model{Vocab: spec.Vocab, MaxLen: spec.LongestSequence(0), Task: spec.Task(), Types: spec.SourceTypes()}
	if err := limits.CheckSequence(a.Sequence); err != nil {
		return fmt.Errorf("its log has what cannot be asked of this model: %w", err)
	}
	l.Sequence, l.Class, l.Wire = a.Sequence, a.NumericClass, a.Wire
	return nil
}

// token takes a token in, and what became of the rows that it was computed from.
func (l *Logged) token(t *pb.Token, spec *model.Spec) error {
	before := len(l.Tokens)
	l.Tokens = append(l.Tokens, t.Id)
	if len(t.Fates) == 0 {
		return nil
	}
	first, want := 0, len(l.Sequence.PromptIds)
	if before > 0 {
		first, want = want+before-1, 1
	}
	for len(l.rows) < first {
		l.rows = append(l.rows, row{})
	}
	layers := spec.MoELayers()
	for _, f := range t.Fates {
		if f.Omitted {
			return errors.New("what became of its rows was too long for the log, and without that they cannot be computed alike")
		}
		if err := wire.CheckFatesShape(f, wire.FatesShape{Rows: int(f.Rows), Layers: layers, Slots: spec.TopK}); err != nil {
			return err
		}
		codes, err := wire.DecodeFates(f)
		if err != nil {
			return err
		}
		size := layers * spec.TopK
		for i := range int(f.Rows) {
			l.rows = append(l.rows, row{codes[i*size : (i+1)*size], plan.Bundle{Way: int(f.Way), ID: f.Bundle}})
		}
	}
	if got := len(l.rows) - first; got != want {
		return fmt.Errorf("%w of %d rows, and it has %d", wire.ErrFates, got, want)
	}
	return nil
}

func (l *Logged) row(at int) row {
	if at < len(l.rows) {
		return l.rows[at]
	}
	return row{}
}

// Degraded is how many slots had not their own experts.
func (l *Logged) Degraded() (n int) {
	for _, r := range l.rows {
		for _, c := range r.codes {
			if c != wire.FateOwn {
				n++
			}
		}
	}
	return n
}
