package attention

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
)

// A sequence is seated with the pages of the ids that it has, and takes more as it
// grows. When none is free, the one that was admitted last steps aside: it gives its
// pages back, and what they held is computed again from its ids when there is room.
// The oldest never does, so there is always one that gets to its end.

// extent is how many positions the ids that it has need in the KV cache.
func (s *sequence) extent() int { return max(s.source(), s.rows()-s.source()) }

// ahead is for how many more positions there must be room when it is seated, for it
// and for each that runs: twice as many each time, so that it steps aside a few times
// at most, and not before somebody has got that far.
func (s *sequence) ahead() int { return kvcache.PagePositions << min(s.asides, 24) }

// want is how many pages a sequence should have to grow by that many positions.
func (d *scheduler) want(s *sequence, ahead int) int {
	return d.stats.kv.Need(min(s.positions(), s.extent()+ahead))
}

// spare is how many pages are free beside those that running sequences will take to
// grow by that many positions.
func (d *scheduler) spare(ahead int) int {
	pages := d.stats.kv.Free()
	for _, s := range d.order {
		if s.table != nil && !s.ended {
			pages -= max(0, d.want(s, ahead)-s.table.Reserved())
		}
	}
	return pages
}

// serve gives free pages to those who wait for them.
func (d *scheduler) serve() {
	for s, ok := d.nextSeat(); ok; s, ok = d.nextSeat() {
		table, err := d.stats.kv.Reserve(s.extent())
		if err != nil {
			d.stepFailed(s, err) // cannot be: nobody else takes pages
			return
		}
		d.seat(s, table)
	}
}

// nextSeat takes out who is seated next. Those who stepped aside are older than all in
// the line.
func (d *scheduler) nextSeat() (*sequence, bool) {
	if len(d.aside) == 0 {
		return d.line.Next(d.spare(kvcache.PagePositions))
	}
	s := d.aside[0]
	if ahead := s.ahead(); d.want(s, ahead) > d.spare(ahead) {
		return nil, false
	}
	d.aside = slices.Delete(d.aside, 0, 1)
	return s, true
}

func (d *scheduler) seat(s *sequence, t *kvcache.Table) {
	s.table = t
	if s.admission == 0 {
		d.admissions++
		s.admission = d.admissions
		s.leaveQueue(d.now())
		d.stats.leftQueue(s)
	}
	d.stats.active(len(d.sequences))
}

// stretch gives sequences that have outgrown their pages more, the oldest first.
func (d *scheduler) stretch() {
	d.outgrown = d.outgrown[:0]
	for _, s := range d.order {
		if s.mayStep() && s.table.Positions() < s.extent() {
			d.outgrown = append(d.outgrown, s)
		}
	}
	slices.SortFunc(d.outgrown, func(a, b *sequence) int { return cmp.Compare(a.admission, b.admission) })
	for _, s := range d.outgrown {
		d.grow(s)
	}
}

// grow gives a sequence pages for all of its ids. While those that it needs are with a
// worker, it keeps what it has and does not step.
func (d *scheduler) grow(s *sequence) {
	for s.table != nil {
		if s.table.Grow(s.extent()) == nil {
			d.stats.active(len(d.sequences))
			return
		}
		v := d.youngest()
		if v == nil {
			return
		}
		d.stepAside(v)
	}
}

// youngest is who gives its pages back; nil: its worker has to be done first, or that
// of one that has ended and needs its pages no longer.
func (d *scheduler) youngest() (v *sequence) {
	for _, s := range d.order {
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

// stepAside takes a sequence's pages. Whoever is aside already stepped aside as the
// youngest, and is younger.
func (d *scheduler) stepAside(s *sequence) {
	s.table.Release()
	s.table, s.done = nil, 0
	s.asides++
	d.aside = slices.Insert(d.aside, 0, s)
	d.endTrial(s)
	d.stats.preempted()
	d.log.Debug("a sequence stepped aside", "request", s.seq.RequestId, "tokens", s.generated(), "times", s.asides)
}

// leaveLine takes a sequence out that waits for pages no longer.
func (d *scheduler) leaveLine(s *sequence) {
	d.line.Leave(s)
	d.aside = slices.DeleteFunc(d.aside, func(o *sequence) bool { return o == s })
}
