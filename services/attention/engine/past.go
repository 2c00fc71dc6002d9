package engine

import (
	"fmt"
	"slices"
	"sort"

	"github.com/switchyard/switchyard/pkg/policy/batching"
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

// spared reports whether rows that are not in the log yet keep their experts: what an encoder reads, what
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

// drafts have decoding sequences check tokens with which they may go on (package speculation).
type drafts struct {
	most  int // tokens of one; 0: none are made
	price batching.Price
}

// dear is the price of a row from which nothing is looked up.
const dear = 0.9

// add adds drafted rows to a microbatch that may have so many more, as far as they pay. Where gates
// obey a stamp there are none: what becomes of rows then depends on which others there are.
func (d *drafts) add(mb *microbatch, room int) {
	if d.most == 0 || mb.order != nil {
		return
	}
	price := d.price.Row(mb.rows)
	if price >= dear {
		return // hardly a token is worth it: the lookups are spared
	}
	for i := range mb.parts {
		p := &mb.parts[i]
		n := p.draft(min(d.most, room), price)
		room -= n
		mb.rows += n
	}
}

// draft adds at most so many drafted rows to a part, and says how many.
func (p *part) draft(most int, price float64) int {
	s := p.s
	most = s.draftable(most)
	tokens, matched := batching.Draft(s.ids, most, s.ids)
	if matched == 0 {
		return 0
	}
	p.drafted, p.matched = s.acceptance.Length(matched, price, most), matched
	p.rows += p.drafted
	p.tokens = tokens[:len(s.ids)+p.drafted]
	return p.drafted
}

// draftable is how many drafted tokens, of so many at most, a sequence can check: it has pages for
// them, is as long with them as without, and chooses its tokens by logits alone.
func (s *Sequence) draftable(most int) int {
	if !s.decoding() || s.generated() == 0 || s.fills() || s.scores() || s.source() > 0 || s.cursor != nil || s.suspect || s.flow.IsCanary() {
		return 0
	}
	most = min(most, s.table.Positions()-s.extent(), int(s.seq.MaxTokens)-s.generated()-1)
	for most > 0 && s.isLong != nil && s.isLong(len(s.ids)+most) != s.long {
		most--
	}
	return max(0, most)
}

// accept keeps the choices up to the first that is not what was drafted.
func (p *part) accept() {
	if p.drafted == 0 || len(p.choices) == 0 {
		return
	}
	foreseen, draft := 0, p.tokens[len(p.s.ids):]
	for foreseen < min(p.drafted, len(p.choices)) && p.choices[foreseen].ID == draft[foreseen] {
		foreseen++
	}
	p.rejected = p.drafted - foreseen
	if foreseen < len(p.choices) {
		p.choices = p.choices[:foreseen+1]
		p.end = nil // it is of a row behind these
	}
}

// lasting is how many of a part's rows stay in the cache: the others are of rejected tokens.
func (p *part) lasting() int { return p.rows - p.rejected }

// drafted counts what came of a part's draft.
func (s *stats) drafted(p *part) {
	if p.drafted == 0 {
		return
	}
	p.s.acceptance.Observe(p.matched, p.drafted, p.drafted-p.rejected)
	s.metrics.DraftTokens("accepted").Add(float64(p.drafted - p.rejected))
	s.metrics.DraftTokens("rejected").Add(float64(p.rejected))
}

// runsOf lists a microbatch's rows in their order. A sequence's prompt tokens
// and generated tokens are runs of their own: each run has one phase.
func runsOf(mb *microbatch) (runs []*pb.Run) {
	for i := range mb.parts {
		p := &mb.parts[i]
		first, end := p.s.done, p.s.done+p.rows
		border := min(max(first, p.s.prompt()), end)
		runs = appendRuns(runs, mb, p, first, border, pb.Phase_PHASE_PREFILL)
		runs = appendRuns(runs, mb, p, border, end, pb.Phase_PHASE_DECODE)
	}
	return runs
}

// appendRuns makes rows of one phase runs. Where gates obey a stamp, those that are computed again
// are one of their own: what became of them stays.
func appendRuns(runs []*pb.Run, mb *microbatch, p *part, first, end int, phase pb.Phase) []*pb.Run {
	if mb.order == nil {
		return appendRun(runs, p, first, end, phase, false)
	}
	again := min(max(first, p.s.logged()), end)
	runs = appendRun(runs, p, first, again, phase, true)
	return appendRun(runs, p, again, end, phase, p.own || p.s.spared(p.rows))
}

func appendRun(runs []*pb.Run, p *part, first, end int, phase pb.Phase, own bool) []*pb.Run {
	if first == end {
		return runs
	}
	s, tokens := p.s, p.tokens[first:end]
	if p.drafted > 0 {
		tokens = slices.Clone(tokens) // other tokens will be where these are
	}
	return append(runs, &pb.Run{
		Sequence: s.seq.RequestId, FirstPosition: uint32(first), Tokens: tokens, Phase: phase, Tenant: s.flow.Tenant, Own: own,
	})
}
