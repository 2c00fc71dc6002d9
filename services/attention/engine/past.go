package engine

import (
	"fmt"
	"sort"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// past is what became of a sequence's rows whose tokens are in the log, as far as stand-ins computed
// any of them. When this or another replica computes them again, the same becomes of them: else its
// cache would hold other bits.
type past struct {
	runs []pastRun // ascending
}

// pastRun is of as many rows as its fates have.
type pastRun struct {
	first int
	of    *pb.Fates
}

// take takes in a token's fates, which are of rows from a first one on.
func (p *past) take(first int, list []*pb.Fates) {
	for _, f := range list {
		if len(f.GetCodes()) > 0 {
			p.runs = append(p.runs, pastRun{first, f})
		}
		first += int(f.GetRows())
	}
}

// of are the replays of rows [from, to), which begin at row at of a step.
func (p *past) of(from, to, at int) (all []layer.Replay) {
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].first+int(p.runs[i].of.Rows) > from })
	for ; i < len(p.runs) && p.runs[i].first < to; i++ {
		r := p.runs[i]
		first, end := max(from, r.first), min(to, r.first+int(r.of.Rows))
		all = append(all, layer.Replay{First: at + first - from, Rows: end - first, Skip: first - r.first, Fates: r.of})
	}
	return all
}

// replays are those of a microbatch's rows.
func (mb *microbatch) replays() (all []layer.Replay) {
	first := 0
	for i := range mb.parts {
		s, rows := mb.parts[i].s, mb.parts[i].rows
		if to := min(s.done+rows, s.logged()); s.done < to {
			all = append(all, s.past.of(s.done, to, first)...)
		}
		first += rows
	}
	return all
}

// spared says whether rows that are not in the log yet keep their experts: what an encoder reads, what
// has scores, which are in the log before a token is, and what would make a record too long.
func (s *Sequence) spared(rows int) bool {
	return s.source() > 0 || s.scores() || !s.fates.holds(rows, s.slots.Layers*s.slots.Slots, s.fateRoom)
}

// checkPast says why a token's fates cannot be of a model's rows.
func checkPast(list []*pb.Fates, rows, layers, slots int) error {
	for _, f := range list {
		if err := wire.CheckFatesShape(f, wire.FatesShape{Rows: int(f.GetRows()), Layers: layers, Slots: slots}); err != nil {
			return err
		}
		if f.Omitted {
			return fmt.Errorf("%w of %d rows were omitted", wire.ErrFates, f.Rows)
		}
		rows -= int(f.Rows)
	}
	if len(list) > 0 && rows != 0 {
		return fmt.Errorf("%w of %d rows more or fewer than a token has", wire.ErrFates, rows)
	}
	return nil
}
