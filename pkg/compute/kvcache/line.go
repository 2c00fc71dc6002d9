package kvcache

import "slices"

// MaxPassed is how many that came later may get pages before one that waits.
// With none, small requests would wait although there is room for them; with
// many, one that needs most of the pages would wait for as long as small ones come.
const MaxPassed = 4

// Line is who waits for pages, in the order of arrival. It only decides: the
// caller has the pages.
type Line[T comparable] struct {
	waiting []waiter[T]
}

type waiter[T comparable] struct {
	who    T
	pages  int
	passed int // how many that came later were served
}

// Len is how many wait.
func (l *Line[T]) Len() int { return len(l.waiting) }

// Join puts somebody who needs pages at the end.
func (l *Line[T]) Join(who T, pages int) {
	l.waiting = append(l.waiting, waiter[T]{who: who, pages: pages})
}

// Leave takes somebody out who waits no longer.
func (l *Line[T]) Leave(who T) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter[T]) bool { return w.who == who })
}

// Next takes the first out for whom enough pages are free. Once one that waits
// has been passed MaxPassed times, what is free is kept until it suffices.
func (l *Line[T]) Next(free int) (who T, ok bool) {
	i := l.first(func(w waiter[T]) bool { return w.pages <= free })
	if i < 0 {
		return who, false
	}
	who = l.waiting[i].who
	l.serve(i)
	return who, true
}

// First is who Next would take out where fits says for whom there are enough pages.
func (l *Line[T]) First(fits func(who T) bool) (who T, ok bool) {
	i := l.first(func(w waiter[T]) bool { return fits(w.who) })
	if i < 0 {
		return who, false
	}
	return l.waiting[i].who, true
}

// Serve takes one out that has been given pages.
func (l *Line[T]) Serve(who T) {
	if i := slices.IndexFunc(l.waiting, func(w waiter[T]) bool { return w.who == who }); i >= 0 {
		l.serve(i)
	}
}

// first is the place of the one that is next; -1: there is none.
func (l *Line[T]) first(fits func(waiter[T]) bool) int {
	for i, w := range l.waiting {
		if fits(w) {
			return i
		}
		if w.passed >= MaxPassed {
			break
		}
	}
	return -1
}

func (l *Line[T]) serve(i int) {
	for j := range i {
		l.waiting[j].passed++
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
}
