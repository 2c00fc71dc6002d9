package admission

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/schemas"
)

// Queue decides which request goes next when many wait: tenants share
// by weight, a tenant's own requests go by urgency and age. It is pure: the caller
// has the clock and the machine.
//
// Between tenants it is start-time fair queueing (Goyal, Vin and Cheng 1996): each
// tenant has a virtual time, which its work moves on by work divided by weight,
// and the one whose time is least goes next. A tenant that begins to wait starts at the
// time of the one that went last, so that no tenant saves up, and none waits for what
// others had before. A request's size counts after its turn, not before it: a large one
// starts when its tenant has its turn, and the tenant pays for it then.

// Lead is by how many seconds a request of class high counts as older than it is,
// and one of class low as younger. It is what bounds how long an urgent stream
// can keep the others of its tenant waiting.
const Lead = 30

// Request is somebody who waits.
type Request[T comparable] struct {
	Who  T
	Flow schemas.Flow
	// Weight is the tenant's share beside others'; not above 0: 1.
	Weight float64
	// Work is what it takes, in tokens.
	Work float64
	// Arrived is in seconds, on any clock.
	Arrived float64
	// Begun says that it went before, and somebody waits for the rest of it: it
	// goes before all that have not.
	Begun bool
}

// due is when it has its turn among its tenant's own.
func (r *Request[T]) due() float64 {
	switch r.Flow.Class {
	case schemas.ClassHigh:
		return r.Arrived - Lead
	case schemas.ClassLow:
		return r.Arrived + Lead
	}
	return r.Arrived
}

// Queue is who waits. The zero value is empty.
type Queue[T comparable] struct {
	tenants map[string]*tenant[T]
	begun   []Request[T] // in the order of their arrival
	clock   float64      // virtual time of who went last
	length  int
}

// account is what somebody had, in virtual time: by its weight.
type account struct{ time float64 }

// charge counts work that is done for him.
func (a *account) charge(weight, work float64) { a.time += work / orOne(weight) }

// lift has him begin no earlier than those who had their turns meanwhile: nobody saves up.
func (a *account) lift(clock float64) { a.time = max(a.time, clock) }

type tenant[T comparable] struct {
	account

	name    string
	waiting []Request[T] // in the order in which they are due
}

// Len is how many wait.
func (q *Queue[T]) Len() int { return q.length }

// Join lets a request wait.
func (q *Queue[T]) Join(r Request[T]) {
	q.length++
	if r.Begun {
		q.begun = insert(q.begun, r, func(r *Request[T]) float64 { return r.Arrived })
		return
	}
	t := q.tenant(r.Flow.Tenant)
	if len(t.waiting) == 0 {
		t.lift(q.clock)
	}
	t.waiting = insert(t.waiting, r, (*Request[T]).due)
}

// insert puts a request behind those with the same key, or a lower one.
func insert[T comparable](all []Request[T], r Request[T], key func(*Request[T]) float64) []Request[T] {
	at, _ := slices.BinarySearchFunc(all, key(&r), func(o Request[T], k float64) int {
		if key(&o) <= k {
			return -1
		}
		return 1
	})
	return slices.Insert(all, at, r)
}

func (q *Queue[T]) tenant(name string) *tenant[T] {
	t := q.tenants[name]
	if t == nil {
		t = &tenant[T]{name: name, account: account{q.clock}}
		if q.tenants == nil {
			q.tenants = map[string]*tenant[T]{}
		}
		q.tenants[name] = t
	}
	return t
}

// Next takes out whose turn it is, and counts its work as its tenant's.
func (q *Queue[T]) Next() (r Request[T], ok bool) {
	switch t := q.first(); {
	case len(q.begun) > 0:
		r = pop(&q.begun)
		q.tenant(r.Flow.Tenant).charge(r.Weight, r.Work)
	case t != nil:
		r = pop(&t.waiting)
		q.clock = t.time
		t.charge(r.Weight, r.Work)
	default:
		return r, false
	}
	q.took()
	return r, true
}

func pop[T comparable](all *[]Request[T]) Request[T] {
	r := (*all)[0]
	*all = slices.Delete(*all, 0, 1)
	return r
}

// first is the tenant that waits and has had least; by name where several have.
func (q *Queue[T]) first() (least *tenant[T]) {
	for _, t := range q.tenants {
		if len(t.waiting) > 0 && (least == nil || cmp.Or(cmp.Compare(t.time, least.time), cmp.Compare(t.name, least.name)) < 0) {
			least = t
		}
	}
	return least
}

// maxAhead bounds the tenants that are remembered though none of their requests
// waits, because they had more than others. While new tenants come faster than
// requests go, those who had a turn never fall behind.
const maxAhead = 1024

// took counts one less, and forgets what changes no decision any more: tenants
// that are not ahead, and when nobody waits what anybody had.
func (q *Queue[T]) took() {
	if q.length--; q.length == 0 {
		q.tenants, q.clock = nil, 0
		return
	}
	ahead := 0
	for name, t := range q.tenants {
		switch {
		case len(t.waiting) > 0:
		case t.time <= q.clock:
			delete(q.tenants, name)
		default:
			ahead++
		}
	}
	if ahead > maxAhead {
		q.forgive()
	}
}

// forgive forgets those of whom nothing waits, but for the half that had most.
func (q *Queue[T]) forgive() {
	var ahead []*tenant[T]
	for _, t := range q.tenants {
		if len(t.waiting) == 0 {
			ahead = append(ahead, t)
		}
	}
	slices.SortFunc(ahead, func(a, b *tenant[T]) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.name, b.name)) })
	for _, t := range ahead[:len(ahead)/2] {
		delete(q.tenants, t.name)
	}
}

// Refund gives a tenant back what a request of its that went did not need.
func (q *Queue[T]) Refund(tenant string, weight, work float64) {
	if t := q.tenants[tenant]; t != nil {
		t.charge(weight, -work)
		t.lift(q.clock)
	}
}

// Leave takes somebody out who waits no longer.
func (q *Queue[T]) Leave(who T) bool {
	is := func(r Request[T]) bool { return r.Who == who }
	if i := slices.IndexFunc(q.begun, is); i >= 0 {
		q.begun = slices.Delete(q.begun, i, i+1)
		q.took()
		return true
	}
	for _, t := range q.tenants {
		if i := slices.IndexFunc(t.waiting, is); i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			q.took()
			return true
		}
	}
	return false
}

// Last is who would wait longest of those that have not begun: the last one of
// the tenant with most of them. It stays.
func (q *Queue[T]) Last() (r Request[T], ok bool) {
	var most *tenant[T]
	for _, t := range q.tenants {
		if n := len(t.waiting); n > 0 && (most == nil || n > len(most.waiting) || n == len(most.waiting) && t.name < most.name) {
			most = t
		}
	}
	if most == nil {
		return r, false
	}
	return most.waiting[len(most.waiting)-1], true
}

// Load is what waits of a flow.
type Load struct {
	Flow schemas.Flow
	// Weight is the tenant's; not above 0: 1.
	Weight   float64
	Requests int
	// Work is in tokens.
	Work float64
}

// Ahead is how much of what waits goes before a request that comes now: of its
// own tenant what is as urgent or more, and of every other one what its share
// lets it have meanwhile, and a request on top, which its turn may bring.
func Ahead(waiting []Load, flow schemas.Flow, weight float64) (work float64) {
	own := 0.0
	others := map[string]Load{}
	for _, l := range waiting {
		switch {
		case l.Flow.Tenant != flow.Tenant:
			sum := others[l.Flow.Tenant]
			others[l.Flow.Tenant] = Load{Weight: l.Weight, Requests: sum.Requests + l.Requests, Work: sum.Work + l.Work}
		case rank(l.Flow.Class) <= rank(flow.Class):
			own += l.Work
		}
	}
	work = own
	for _, l := range others {
		meanwhile := own * orOne(l.Weight) / orOne(weight)
		work += min(l.Work, meanwhile+l.Work/float64(max(1, l.Requests)))
	}
	return work
}

// orOne is a weight, or that of who has none that can be.
func orOne(weight float64) float64 {
	if !(weight > 0) {
		return 1
	}
	return min(max(weight, 1/mostWeight), mostWeight)
}

// mostWeight bounds how much more than others somebody has.
const mostWeight = 1 << 20

func rank(c schemas.Class) int { return slices.Index(schemas.Classes, c) }

// Share is a tenant's share of the machine beside those who wait.
func Share(waiting []Load, tenant string, weight float64) float64 {
	weights := map[string]float64{}
	for _, l := range waiting {
		weights[l.Flow.Tenant] = orOne(l.Weight)
	}
	weights[tenant] = orOne(weight)
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	return orOne(weight) / sum
}
