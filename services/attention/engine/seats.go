package engine

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
)

// A sequence is seated with the pages of the ids that it has, and takes more as it
// grows. When none is free, the one that was admitted last steps aside: it gives its
// pages back, and what they held is computed again from its ids when there is room.
// The oldest never does, so there is always one that gets to its end.
//
// A quarter of the pages is for guests: newcomers in their first turn, of firstTurn
// positions. They need not wait for all that are aside to end, and they have the pages
// of that turn from its begin, so they end it whatever others do. Behind it they are as
// all others.

// seats are the pages of keys and values, and the sequences that wait for them.
type seats struct {
	kv    *kvcache.Pool
	own   *owned
	line  kvcache.Line[*Sequence]
	aside []*Sequence // gave their pages back, oldest first
	// admissions counts sequences that were seated.
	admissions uint64
	outgrown   []*Sequence
}

// firstTurn is how many positions a guest may grow by.
const firstTurn = 4 * kvcache.PagePositions

// guests is how many pages guests have, and room how many more they may get: with what they
// have, the oldest of the others gets to its end.
func (t *seats) guests() (pages, room int) {
	var oldest *Sequence
	for _, s := range t.own.order {
		switch {
		case s.table == nil || s.ended:
		case s.guest:
			pages += s.table.Reserved()
		case oldest == nil || s.admission < oldest.admission:
			oldest = s
		}
	}
	if len(t.aside) > 0 && (oldest == nil || t.aside[0].admission < oldest.admission) {
		oldest = t.aside[0]
	}
	room = t.kv.Capacity() / 4
	if oldest != nil {
		room = min(room, t.kv.Capacity()-t.kv.Need(oldest.positions()))
	}
	return pages, max(0, room-pages)
}

// welcome says whether a newcomer may be a guest where there is so much room for them.
func (t *seats) welcome(s *Sequence, room int) bool {
	return s.admission == 0 && t.want(s, firstTurn) <= room
}

// guest is the next newcomer that may be one, where others are aside and would go before it; nil: none.
func (t *seats) guest() *Sequence {
	if len(t.aside) == 0 {
		return nil
	}
	_, room := t.guests()
	s, _ := t.line.First(func(s *Sequence) bool { return t.welcome(s, room) })
	return s
}

// lacks says whether there are too few pages for a guest.
func (t *seats) lacks(s *Sequence) bool { return t.want(s, firstTurn) > t.kv.Free() }

// dismiss ends a guest's first turn, and says whether an older sequence is aside.
func (t *seats) dismiss(s *Sequence) (others bool) {
	s.guest = false
	return len(t.aside) > 0 && t.aside[0].admission < s.admission
}

// want is how many pages a sequence should have to grow by that many positions.
func (t *seats) want(s *Sequence, ahead int) int {
	return t.kv.Need(min(s.positions(), s.extent()+ahead))
}

// spare is how many pages are free beside those that running sequences will take to
// grow by that many positions.
func (t *seats) spare(ahead int) int {
	pages := t.kv.Free()
	for _, s := range t.own.order {
		if s.table != nil && !s.ended {
			pages -= max(0, t.want(s, ahead)-s.table.Reserved())
		}
	}
	return pages
}

// join lets a sequence wait for its first pages.
func (t *seats) join(s *Sequence) { t.line.Join(s, t.want(s, s.ahead())) }

// waiting is how many sequences have no pages yet, or no more.
func (t *seats) waiting() int { return t.line.Len() + len(t.aside) }

// next takes out who is seated next. Those who stepped aside are older than all in
// the line.
func (t *seats) next() (*Sequence, bool) {
	if len(t.aside) == 0 {
		return t.line.Next(t.spare(kvcache.PagePositions))
	}
	s := t.aside[0]
	_, room := t.guests()
	if ahead := s.ahead(); t.want(s, ahead) > t.spare(ahead)-room { // else the next guests would have it step aside again
		return nil, false
	}
	t.aside = slices.Delete(t.aside, 0, 1)
	return s, true
}

// sit gives a sequence its pages, and says whether they are its first.
func (t *seats) sit(s *Sequence) (first bool, err error) {
	positions := s.extent()
	_, room := t.guests()
	if s.guest = t.welcome(s, room) && !t.lacks(s); s.guest {
		positions = min(s.positions(), positions+firstTurn)
	}
	table, err := t.kv.Reserve(positions)
	if err != nil {
		return false, err
	}
	s.table = table
	if first = s.admission == 0; first {
		t.admissions++
		s.admission = t.admissions
	}
	return first, nil
}

// cramped are the sequences that have outgrown their pages, the oldest first.
func (t *seats) cramped() []*Sequence {
	t.outgrown = t.outgrown[:0]
	for _, s := range t.own.order {
		if s.mayStep() && s.table.Positions() < s.extent() {
			t.outgrown = append(t.outgrown, s)
		}
	}
	slices.SortFunc(t.outgrown, func(a, b *Sequence) int { return cmp.Compare(a.admission, b.admission) })
	return t.outgrown
}

// youngest is who gives its pages back; nil: its worker has to be done first, or that
// of one that has ended and needs its pages no longer, or there are guests beside one alone.
func (t *seats) youngest() (v *Sequence) {
	guests, others := false, 0
	for _, s := range t.own.order {
		switch {
		case s.table == nil:
		case s.ended:
			return nil
		case s.guest:
			guests = true
		default:
			if others++; v == nil || s.admission > v.admission {
				v = s
			}
		}
	}
	if v == nil || v.flight != nil || guests && others == 1 {
		return nil
	}
	return v
}

// putAside takes a sequence's pages. All but who was a guest are older than who is aside
// already.
func (t *seats) putAside(s *Sequence) {
	s.table.Release()
	s.table, s.done = nil, 0
	s.asides++
	at, _ := slices.BinarySearchFunc(t.aside, s.admission, func(o *Sequence, admission uint64) int { return cmp.Compare(o.admission, admission) })
	t.aside = slices.Insert(t.aside, at, s)
}

// leaveLine takes a sequence out that waits for pages no longer.
func (t *seats) leaveLine(s *Sequence) {
	t.line.Leave(s)
	t.aside = slices.DeleteFunc(t.aside, func(o *Sequence) bool { return o == s })
}

// prefixes have sequences begin with keys and values that others of their tenant have computed of the
// same ids (kvcache, prefix.go).
type prefixes struct{ shared bool }

// mayShare says whether a sequence's keys and values are those of any other one that begins with the
// same ids: a decoder alone made them, each of its rows by its own experts.
func (p prefixes) mayShare(s *Sequence) bool {
	return p.shared && s.source() == 0 && len(s.seq.TokenTypes) == 0 && !s.long && len(s.past.runs) == 0 && !s.flow.IsCanary()
}

// begin has a sequence that got its pages begin with what is there, and says how many of its ids that
// spares. Its last id is computed in any case, and all that have scores.
func (p prefixes) begin(s *Sequence) (spared int) {
	s.offered, s.cached = 0, 0
	if !p.mayShare(s) || s.scores() {
		return 0
	}
	s.done = s.table.Begin(s.pageKeys((len(s.ids) - 1) / kvcache.PagePositions))
	s.offered, s.cached = s.done/kvcache.PagePositions, s.done
	return s.done
}

// offer offers a sequence's full pages to others.
func (p prefixes) offer(s *Sequence) {
	full := s.done / kvcache.PagePositions
	if s.table == nil || full <= s.offered || !p.mayShare(s) {
		return
	}
	s.table.Offer(s.offered, s.pageKeys(full)[s.offered:])
	s.offered = full
}

// shared is what a sequence knows of its pages.
type shared struct {
	keys    []kvcache.Key // of its first pages
	offered int           // of its pages, the first ones: to others, or by them
	cached  int           // of its ids, when it last got its pages
}

// pageKeys are the keys of a sequence's first n pages, whose ids it has.
func (s *Sequence) pageKeys(n int) []kvcache.Key {
	for i := len(s.keys); i < n; i++ {
		before := kvcache.Scope(s.flow.Tenant)
		if i > 0 {
			before = s.keys[i-1]
		}
		s.keys = append(s.keys, before.Next(s.ids[i*kvcache.PagePositions:(i+1)*kvcache.PagePositions]))
	}
	return s.keys[:n]
}
