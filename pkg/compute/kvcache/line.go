package kvcache

import "slices"

// MaxPassed is how many that came later may get pages before one that waits.
// With none, small requests would wait although there is room for them; with
// many, one that needs most of the pages would wait for as long as small ones come.
const MaxPassed = 4

// Line is who waits for pages, in the order of arrival or as Sort says. It only decides: the
// caller has the pages.
type Line[T comparable] struct {
	waiting []waiter[T]
}

type waiter[T comparable] struct {
	who    T
	pages  int
	passed int // how many that came later were served
}

// Len returns how many wait.
func (l *Line[T]) Len() int { return len(l.waiting) }

// Join puts somebody who needs pages at the end.
func (l *Line[T]) Join(who T, pages int) {
	l.waiting = append(l.waiting, waiter[T]{who: who, pages: pages})
}

// Leave takes somebody out who waits no longer.
func (l *Line[T]) Leave(who T) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter[T]) bool { return w.who == who })
}

// Sort puts those first that compare says; who are equal stay in their order.
func (l *Line[T]) Sort(compare func(a, b T) int) {
	slices.SortStableFunc(l.waiting, func(a, b waiter[T]) int { return compare(a.who, b.who) })
}

// First returns the first of whom fits says that there are enough pages for it. Once one that waits
// has been passed MaxPassed times, what is free is kept until it suffices.
func (l *Line[T]) First(fits func(who T, pages int) bool) (who T, ok bool) {
	for _, w := range l.waiting {
		if fits(w.who, w.pages) {
			return w.who, true
		}
		if w.passed >= MaxPassed {
			break
		}
	}
	return who, false
}

// Serve takes one out that has been given pages.
func (l *Line[T]) Serve(who T) {
	i := slices.IndexFunc(l.waiting, func(w waiter[T]) bool { return w.who == who })
	for j := range i {
		l.waiting[j].passed++
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
}
