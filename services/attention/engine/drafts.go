package engine

import "github.com/switchyard/switchyard/pkg/policy/batching"

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
