package delivery

import (
	"maps"
	"sync"
	"time"
)

const (
	// goneAfter is how long the server has to say that a caller does not listen: one that
	// reconnects is back by then.
	goneAfter = 600 * time.Millisecond
	// resettling is how long that is no news after this replica's own connection came back:
	// the server was away for callers too, and NATS's clients wait seconds between their tries.
	resettling = 10 * time.Second
	// absentFor is when what the server said is too old to be the beginning of an absence.
	absentFor = 10 * time.Second
)

// absences are requests whose caller did not listen when a chunk was sent, and since when, a
// bounded number of them.
type absences struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// lasts notes that a request's caller does not listen now, and says whether that has been so
// for goneAfter.
func (a *absences) lasts(request string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	begun, known := a.since[request]
	if known && now.Sub(begun) < absentFor {
		return now.Sub(begun) >= goneAfter
	}
	if len(a.since) >= maxEnding {
		maps.DeleteFunc(a.since, func(_ string, begun time.Time) bool { return now.Sub(begun) >= absentFor })
	}
	if known || len(a.since) < maxEnding {
		if a.since == nil {
			a.since = map[string]time.Time{}
		}
		a.since[request] = now
	}
	return false
}
