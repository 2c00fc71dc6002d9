package delivery

import (
	"sync"
	"time"
)

// recently remembers names for a while, and a bounded number of them: two
// generations, of which the older one goes when the younger one is old or full.
type recently struct {
	limit int
	age   time.Duration

	mu         sync.Mutex
	young, old map[string]struct{}
	since      time.Time // when the young generation began
}

func newRecently(limit int, age time.Duration) *recently {
	return &recently{limit: limit, age: age}
}

// add remembers a name for at least age, if no more than half of limit come meanwhile.
func (r *recently) add(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	if len(r.young) >= r.limit/2 {
		r.old, r.young, r.since = r.young, nil, now
	}
	if r.young == nil {
		r.young = map[string]struct{}{}
	}
	r.young[name] = struct{}{}
}

func (r *recently) has(name string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	_, young := r.young[name]
	_, old := r.old[name]
	return young || old
}

// turn makes the generations older.
func (r *recently) turn(now time.Time) {
	switch passed := now.Sub(r.since); {
	case passed > 2*r.age:
		r.old, r.young, r.since = nil, nil, now
	case passed > r.age:
		r.old, r.young, r.since = r.young, nil, now
	}
}
