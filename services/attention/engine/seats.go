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
//
// Tenants share the pages by weight. Of those who wait for some, the tenant is served that has
// fewest for its weight, and that which has most gives some back, whoever came first; the above is
// the order of a tenant's own.

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
	for _, s := range t.own.order {
		if s.seated() && s.guest {
			pages += s.table.Reserved()
		}
	}
	room = t.kv.Capacity() / 4
	if oldest := cmp.Or(t.oldest(), t.firstAside()); oldest != nil {
		room = min(room, t.kv.Capacity()-t.kv.Need(oldest.positions()))
	}
	return pages, max(0, room-pages)
}

// oldest is who has had pages for longest, of those who are no guests; nil: nobody has any.
func (t *seats) oldest() (oldest *Sequence) {
	for _, s := range t.own.order {
		if s.seated() && !s.guest && (oldest == nil || s.admission < oldest.admission) {
			oldest = s
		}
	}
	return oldest
}

// seated reports whether a sequence has pages that it needs.
func (s *Sequence) seated() bool { return s.table != nil && !s.ended }

// firstAside is who gets its pages back first; nil: nobody is aside.
func (t *seats) firstAside() *Sequence {
	if len(t.aside) == 0 {
		return nil
	}
	return slices.MinFunc(t.aside, t.compare)
}

// compare says who goes before another: who has fewer pages for its weight, and of those who are of one
// tenant the older one.
func (t *seats) compare(a, b *Sequence) int {
	return cmp.Or(t.compareShares(a, b), cmp.Compare(a.admission, b.admission))
}

func (t *seats) compareShares(a, b *Sequence) int {
	return cmp.Compare(t.kv.Share(a.flow.Tenant), t.kv.Share(b.flow.Tenant))
}

// welcome reports whether a newcomer may be a guest where there is so much room for them.
func (t *seats) welcome(s *Sequence, room int) bool {
	return s.admission == 0 && t.want(s, firstTurn) <= room
}

// guest is the next newcomer that may be one, where others are aside and would go before it; nil: none.
func (t *seats) guest() *Sequence {
	if len(t.aside) == 0 {
		return nil
	}
	_, room := t.guests()
	t.line.Sort(t.compareShares)
	s, _ := t.line.First(func(s *Sequence, _ int) bool { return t.welcome(s, room) })
	return s
}

// lacks reports whether there are too few pages for a guest.
func (t *seats) lacks(s *Sequence) bool { return t.want(s, firstTurn) > t.kv.FreeFor(s.flow.Tenant) }

// dismiss ends a guest's first turn, and reports whether a sequence is aside that goes before it.
func (t *seats) dismiss(s *Sequence) (others bool) {
	s.guest = false
	first := t.firstAside()
	return first != nil && t.compare(first, s) < 0
}

// want is how many pages a sequence should have to grow by that many positions.
func (t *seats) want(s *Sequence, ahead int) int {
	return t.kv.Need(min(s.positions(), s.extent()+ahead))
}

// spare is how many pages are free for a sequence beside those that running ones will take to
// grow by that many positions.
func (t *seats) spare(s *Sequence, ahead int) int {
	pages, alone := t.kv.FreeFor(s.flow.Tenant), true
	for _, o := range t.own.order {
		if o.seated() {
			pages -= max(0, t.want(o, ahead)-o.table.Reserved())
			alone = false
		}
	}
	if alone {
		return t.kv.Free()
	}
	return pages
}

// join lets a sequence wait for its first pages.
func (t *seats) join(s *Sequence) { t.line.Join(s, t.want(s, s.ahead())) }

// waiting is how many sequences have no pages yet, or no more.
func (t *seats) waiting() int { return t.line.Len() + len(t.aside) }

// next takes out who is seated next. Those of a tenant who stepped aside are older than those in
// the line.
func (t *seats) next() (*Sequence, bool) {
	aside := t.firstAside()
	t.line.Sort(t.compareShares)
	s, ok := t.line.First(func(s *Sequence, pages int) bool {
		return (aside == nil || t.compareShares(s, aside) < 0) && pages <= t.spare(s, kvcache.PagePositions)
	})
	if ok {
		t.line.Serve(s)
		return s, true
	}
	if aside == nil {
		return nil, false
	}
	_, room := t.guests()
	if ahead := aside.ahead(); t.want(aside, ahead) > t.spare(aside, ahead)-room { // else the next guests would have it step aside again
		return nil, false
	}
	t.aside = slices.DeleteFunc(t.aside, func(o *Sequence) bool { return o == aside })
	return aside, true
}

// sit gives a sequence its pages, and reports whether they are its first.
func (t *seats) sit(s *Sequence) (first bool, err error) {
	positions := s.extent()
	_, room := t.guests()
	if s.guest = t.welcome(s, room) && !t.lacks(s); s.guest {
		positions = min(s.positions(), positions+firstTurn)
	}
	table, err := t.kv.ReserveFor(s.flow.Tenant, s.weight(), positions)
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

// grow gives a sequence pages for all of its ids, if there are any. The oldest may have what is kept of
// others who have less, too.
func (t *seats) grow(s *Sequence) (ok bool) {
	more := t.kv.Need(s.extent()) - s.table.Reserved()
	return (more <= t.kv.FreeFor(s.flow.Tenant) || s == t.oldest()) && s.table.Grow(s.extent()) == nil
}

// youngest is who gives its pages back: never the oldest. nil: its worker has to be done first, or that
// of one that has ended and needs its pages no longer, or there are guests beside one alone.
func (t *seats) youngest() (v *Sequence) {
	oldest := t.oldest()
	for _, s := range t.own.order {
		switch {
		case s.table == nil || s.guest && !s.ended || s == oldest:
		case s.ended:
			return nil
		case v == nil || t.compare(v, s) < 0:
			v = s
		}
	}
	if v == nil || v.flight != nil {
		return nil
	}
	return v
}

// putAside takes a sequence's pages.
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

// mayShare reports whether a sequence's keys and values are those of any other one that begins with the
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
