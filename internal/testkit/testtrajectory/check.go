package testtrajectory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxTenant bounds the length of a tenant's name, in bytes.
const maxTenant = 256

// tokensOf returns the rows that an announcement claims.
func (r *Reader) tokensOf(m *pb.Step) (tokens []Token, err error) {
	if err := r.shape.Check(m.Version, m.Model); err != nil {
		return nil, err
	}
	if !schemas.IsReplicaID(m.Owner) {
		return nil, fmt.Errorf("%w: owner %.64q is no replica's id", wire.ErrMalformed, m.Owner)
	}
	for _, run := range m.Runs {
		if err := r.checkRun(run); err != nil {
			return nil, err
		}
		if len(tokens)+len(run.Tokens) > r.bounds.Rows {
			return nil, fmt.Errorf("%w: it has more than %d rows", wire.ErrMalformed, r.bounds.Rows)
		}
		for i, id := range run.Tokens {
			tokens = append(tokens, Token{
				Sequence: run.Sequence, Tenant: run.Tenant, Position: int(run.FirstPosition) + i, ID: id, Phase: run.Phase,
			})
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%w: it has no rows", wire.ErrMalformed)
	}
	return tokens, nil
}

func (r *Reader) checkRun(run *pb.Run) error {
	if err := schemas.CheckRequestID(run.Sequence); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrMalformed, err)
	}
	switch n := len(run.Tokens); {
	case n == 0 || !wire.KnownPhase(run.Phase):
		return fmt.Errorf("%w: %d rows of phase %d of request %s", wire.ErrMalformed, n, run.Phase, run.Sequence)
	case uint64(run.FirstPosition)+uint64(n) > uint64(r.bounds.Positions):
		return fmt.Errorf("%w: %d rows of request %s from position %d on; the model has %d positions",
			wire.ErrMalformed, n, run.Sequence, run.FirstPosition, r.bounds.Positions)
	case len(run.Tenant) > maxTenant:
		return fmt.Errorf("%w: tenant of %d bytes, of request %s; at most %d are taken", wire.ErrMalformed, len(run.Tenant), run.Sequence, maxTenant)
	}
	for _, id := range run.Tokens {
		if uint64(id) >= uint64(r.bounds.Vocab) {
			return fmt.Errorf("%w: token %d of request %s; the model has %d", wire.ErrMalformed, id, run.Sequence, r.bounds.Vocab)
		}
	}
	return nil
}

// part is consecutive rows of one layer, as they came in one message.
type part struct {
	first, rows int
	phases      []*pb.PhaseRange
	tensor      *pb.Tensor
}

func (r *Reader) partOf(h *pb.Hidden) (part, error) {
	rows, err := r.shape.CheckHidden(h)
	if err != nil {
		return part{}, err
	}
	if uint64(h.Key.Part)+uint64(rows) > uint64(r.bounds.Rows) {
		return part{}, fmt.Errorf("%w: %d rows from row %d on; a step has at most %d", wire.ErrMalformed, rows, h.Key.Part, r.bounds.Rows)
	}
	return part{first: int(h.Key.Part), rows: rows, phases: h.Phases, tensor: h.Tensor}, nil
}

// fits wants the part's rows to be among those announced, with their phases.
func (p part) fits(tokens []Token) error {
	if p.first+p.rows > len(tokens) {
		return fmt.Errorf("%w: rows %d to %d of a step that was announced with %d", wire.ErrMalformed, p.first, p.first+p.rows, len(tokens))
	}
	at := p.first
	for _, phase := range p.phases {
		for range phase.Rows {
			if tokens[at].Phase != phase.Phase {
				return fmt.Errorf("%w: row %d is of phase %v, announced as %v", wire.ErrMalformed, at, phase.Phase, tokens[at].Phase)
			}
			at++
		}
	}
	return nil
}

// layer is the parts of one layer that have come, by their first row; no row is in two.
type layer struct {
	parts []part
	rows  int
	bytes int
}

// add takes a part in. A repeat changes nothing.
func (l *layer) add(p part) error {
	at, known := slices.BinarySearchFunc(l.parts, p.first, func(q part, first int) int { return cmp.Compare(q.first, first) })
	if known && l.parts[at].rows == p.rows {
		return nil
	}
	if known || at > 0 && l.parts[at-1].first+l.parts[at-1].rows > p.first || at < len(l.parts) && p.first+p.rows > l.parts[at].first {
		return fmt.Errorf("%w: rows %d to %d are partly here already", wire.ErrMalformed, p.first, p.first+p.rows)
	}
	l.parts = slices.Insert(l.parts, at, p)
	l.rows += p.rows
	l.bytes += partBytes + phaseBytes*len(p.phases) + len(p.tensor.Data)
	return nil
}
