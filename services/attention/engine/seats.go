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
	if ahead := s.ahead(); t.want(s, ahead) > t.spare(ahead) {
		return nil, false
	}
	t.aside = slices.Delete(t.aside, 0, 1)
	return s, true
}

// sit gives a sequence its pages, and says whether they are its first.
func (t *seats) sit(s *Sequence) (first bool, err error) {
	table, err := t.kv.Reserve(s.extent())
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
// of one that has ended and needs its pages no longer.
func (t *seats) youngest() (v *Sequence) {
	for _, s := range t.own.order {
		switch {
		case s.table == nil:
		case s.ended:
			return nil
		case v == nil || s.admission > v.admission:
			v = s
		}
	}
	if v == nil || v.flight != nil {
		return nil
	}
	return v
}

// putAside takes a sequence's pages. Whoever is aside already stepped aside as the
// youngest, and is younger.
func (t *seats) putAside(s *Sequence) {
	s.table.Release()
	s.table, s.done = nil, 0
	s.asides++
	t.aside = slices.Insert(t.aside, 0, s)
}

// leaveLine takes a sequence out that waits for pages no longer.
func (t *seats) leaveLine(s *Sequence) {
	t.line.Leave(s)
	t.aside = slices.DeleteFunc(t.aside, func(o *Sequence) bool { return o == s })
}
