package elastic

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/feedback"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A change that is made because it saves time is a trial while attention tells what layers
// take (pkg/policy/feedback): one that does not help is undone.

// tryout is a change that is tried.
type tryout struct {
	before, after memo
}

// memo is a layout by hosts' ids, which hold when hosts come and go.
type memo [][]placed

type placed struct {
	host string
	want pb.Want
}

func (r *round) memo(l layout) memo {
	m := make(memo, len(l))
	for e, spots := range l {
		for _, s := range spots {
			m[e] = append(m[e], placed{r.hosts[s.host].id, s.want})
		}
	}
	return m
}

// recall is a layout that was noted; false if one of its hosts is gone.
func (r *round) recall(m memo) (l layout, whole bool) {
	l, whole = make(layout, len(m)), true
	for e, on := range m {
		for _, p := range on {
			if h, here := r.index[p.host]; here {
				l.put(e, h, p.want)
			} else {
				whole = false
			}
		}
	}
	return l, whole
}

// Applied says which version of each layer's plan all gates use, at least.
func (c *Core) Applied(versions map[int]uint64) { c.applied = versions }

// outcomes ends trials, and lets those be undone that did not help. It returns the time.
func (c *Core) outcomes(now float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.at(now)
	c.backlog.sum(now)
	for _, o := range c.judge.Judge(now) {
		l := c.layers[o.Layer]
		if l.try != nil && !o.Stays() {
			l.undo, l.outcome = l.try, o
		}
		l.try = nil
		c.ended = append(c.ended, o)
	}
	return now
}

// Ended are the trials that have ended since it was asked last.
func (c *Core) Ended() (all []feedback.Outcome) {
	all, c.ended = c.ended, nil
	return all
}

// judges reports whether changes are judged by what comes of them. c.mu is held.
func (c *Core) judges() bool { return !c.s.Unjudged && c.judge.Hears() }

// follow looks whether the plan in force is the one that is tried, and in use. The core's mu is
// held.
func (r *round) follow(w *work, old layout) {
	if w.try == nil {
		return
	}
	if after, whole := r.recall(w.try.after); !whole || !equal(after, old) {
		w.try = nil
		r.c.judge.Drop(r.now, w.number)
		return
	}
	if r.c.applied == nil || r.c.applied[w.number] >= w.in.Version {
		r.c.judge.Used(r.now, w.number)
	}
}

func (r *round) mayTry(w *work) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return !r.c.judges() || r.c.judge.May(r.now, w.number, w.trusted)
}

// A layer's times are explained if what its busiest hosts are reckoned to compute is from
// leastExplained to mostExplained of what attention measures.
const leastExplained, mostExplained = 0.5, 1.3

// trusted reports whether what a layer is reckoned to take explains what it takes: then what a
// change is reckoned to save counts.
func (r *round) trusted(w *work) bool {
	taken, now := r.taken(w), outlook{}
	if taken == 0 || !w.hasRows() || !r.replay(w, w.next, &now) {
		return false
	}
	explained := (now.busy - now.messages*r.message) / taken
	return explained >= leastExplained && explained <= mostExplained
}

// try begins the trial of a change from what there is, which is expected to save a part of
// the layer's time.
func (r *round) try(w *work, part float64) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.judges() {
		w.try = &tryout{before: r.memo(w.next)}
		r.c.judge.Begin(r.now, w.number, part, w.trusted)
	}
}

// takeBack undoes a change that did not help, as far as its experts are still as warm as
// they were; false if there is none, or it does not fit now.
func (r *round) takeBack(w *work) (done bool) {
	if w.undo == nil {
		return false
	}
	before, _ := r.recall(w.undo.before)
	l, n := w.next.clone(), 0
	for e := range l {
		on, was := l.having(e, warm), before.having(e, warm)
		if len(on) > 0 && len(was) > 0 && !slices.Equal(on, was) {
			l.set(e, warm, was...)
			n++
		}
	}
	if !r.fits(l, w.next) {
		return false
	}
	w.undo = nil
	r.adopt(w, l)
	w.why.count(byUndo, n)
	w.why.came = w.outcome
	return true
}

// settleTrials notes what was decided of each layer, for the trials.
func (r *round) settleTrials() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, w := range r.layers {
		w.note(r.now)
		switch {
		case w.try != nil:
			w.try.after = r.memo(w.next)
		case !equal(w.next, w.old):
			r.c.judge.Changed(r.now, w.number)
		}
	}
}

// turn is how an expert's replicas became more or fewer.
type turn struct {
	up, down bool    // the last time
	reversed float64 // when it was last the other way than before
	rows     float64 // of the layer in a second then
}

// turns reports whether replicas that become more, or fewer, go the other way than the last time.
func (t turn) turns(up bool) bool { return up && t.down || !up && t.up }

const (
	// turnPause is how many seconds lie between two reversals of an expert, as long as the
	// layer's load is less than turnLoad times what it was, and more than that part of it.
	turnPause = 60
	turnLoad  = 2
)

// mayTurn reports whether an expert may get more replicas, or lose some, for its load.
func (w *work) mayTurn(now float64, e int, up bool) bool {
	t, rows := w.turns[e], sum(w.loads)
	return !t.turns(up) || now-t.reversed >= turnPause || rows >= turnLoad*t.rows || rows*turnLoad <= t.rows
}

// note remembers in which way experts' replicas have changed.
func (w *work) note(now float64) {
	for e := range w.next {
		had, has := w.old.count(e, warm), w.next.count(e, warm)
		if had == has || had == 0 || has == 0 {
			continue
		}
		t, up := &w.turns[e], has > had
		if t.turns(up) {
			t.reversed, t.rows = now, sum(w.loads)
		}
		t.up, t.down = up, !up
	}
}

// calm is a layout with the experts as they are that may not turn now; nil if it does not fit.
func (r *round) calm(w *work, l layout) layout {
	var changed bool
	for e := range l {
		had, has := w.next.count(e, warm), l.count(e, warm)
		if had != has && had > 0 && has > 0 && !w.mayTurn(r.now, e, has > had) {
			l[e], changed = slices.Clone(w.next[e]), true
		}
	}
	if changed && !r.fits(l, w.next) {
		return nil
	}
	return l
}

// worth is how much of each second a replica has to save to be worth its memory.
func (r *round) worth() float64 { return r.c.s.Worth / float64(len(r.layers)) }

// byRate is how many replicas beyond each expert's first a layer needs at most: those that
// there are save less when there are fewer rows, and go when they save less than half of
// what they are worth.
func (r *round) byRate(w *work) int {
	have := extra(w.old.counts())
	if w.loads == nil || have == 0 || r.c.mode.every > 0 || r.c.s.Worth == 0 {
		return math.MaxInt
	}
	alone := w.old.clone()
	for e := range alone {
		if on := alone.having(e, warm); len(on) > 1 {
			alone.set(e, warm, on[0])
		}
	}
	saved := r.cost(w, alone).busy - r.cost(w, w.old).busy
	if least := r.worth() / 2; saved < least*float64(have) {
		return int(max(0, saved) / least)
	}
	return math.MaxInt
}

func (r *round) worthwhile(w *work, l layout, saved float64) bool {
	added := extra(l.counts()) - extra(w.next.counts())
	return saved >= r.worth()*float64(max(0, added))
}

// bucket has tokens, which come back with time.
type bucket struct {
	left, at float64
	begun    bool
}

func (b *bucket) fill(now, most, rate float64) {
	if !b.begun {
		b.left, b.begun = most, true
	}
	b.left, b.at = min(most, b.left+max(0, now-b.at)*rate), now
}

// listed is how many experts a reason lists.
const listed = 4

// changes lists the experts whose replicas are elsewhere than before.
func (r *round) changes(w *work) string {
	var parts []string
	n := 0
	for e := range w.next {
		had, has := w.old.having(e, warm), w.next.having(e, warm)
		if slices.Equal(had, has) || len(had) == 0 || len(has) == 0 {
			continue // or it goes to zero or comes back, which is told
		}
		if n++; n <= listed {
			parts = append(parts, fmt.Sprintf("expert %d from %d to %d: %s, before %s", e, len(had), len(has), r.names(has), r.names(had)))
		}
	}
	if n > listed {
		parts = append(parts, fmt.Sprintf("%d experts more", n-listed))
	}
	return strings.Join(parts, "; ")
}

func (r *round) names(hosts []int) string {
	var ids []string
	for _, h := range hosts {
		ids = append(ids, r.hosts[h].id)
	}
	return strings.Join(ids, "+")
}
