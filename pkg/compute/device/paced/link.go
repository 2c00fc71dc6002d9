package paced

import (
	"context"
	"slices"
	"sync"
)

// link moves one transfer at a time, of one device or of several. Transfers have it in the order in
// which they come, those that rows wait for before others, which they pass at the end of a piece.
type link struct {
	mu   sync.Mutex
	has  *run
	line []*place // the first of them comes first
}

// place is a run in the line. It is free when the run has the link.
type place struct {
	*run
	free chan struct{}
}

// take waits until a run has the link.
func (l *link) take(ctx context.Context, r *run) error {
	l.mu.Lock()
	if l.has == nil {
		l.has = r
		l.mu.Unlock()
		return nil
	}
	p := &place{r, make(chan struct{})}
	l.line = append(l.line, p)
	for {
		if p.demanded() && !l.has.demanded() {
			l.has.pressed()
		}
		l.mu.Unlock()
		select {
		case <-p.free:
			return nil
		case <-r.Urged: // it may be demanded by now
		case <-ctx.Done():
			l.leave(p)
			return ctx.Err()
		}
		l.mu.Lock()
		if l.has == r {
			l.mu.Unlock()
			return nil
		}
	}
}

// leave is for a run that gives up, which may have been given the link meanwhile.
func (l *link) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.line, p); at >= 0 {
		l.line = slices.Delete(l.line, at, at+1)
		return
	}
	l.next()
}

func (l *link) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next()
}

func (l *link) next() {
	l.has = nil
	if len(l.line) == 0 {
		return
	}
	at := max(0, slices.IndexFunc(l.line, func(p *place) bool { return p.demanded() }))
	p := l.line[at]
	l.line = slices.Delete(l.line, at, at+1)
	l.has = p.run
	close(p.free)
}

// passes reports whether a run that rows wait for waits for one that none wait for.
func (l *link) passes(r *run) bool {
	if r.demanded() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.line, func(p *place) bool { return p.demanded() })
}
