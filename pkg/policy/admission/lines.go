package admission

// Lines are promises by tenant. Each tenant has a line of its own, in which times lie
// as far apart as its share lets its requests begin: one that fills its line makes
// nobody else wait.
type Lines struct{ of map[string]*line }

type line struct {
	Promises

	weight, share float64 // at the last promise
}

// Asker is a request that asks to wait.
type Asker struct {
	Tenant, Request string
	// Weight is the tenant's, and Share what that is beside others who wait.
	Weight, Share float64
}

// maxLines bounds the tenants who have promises: names may be invented.
const maxLines = 1024

// Give promises a request a time, as Promises.Give does among those of its tenant. A
// tenant has its share of all promises at most: beyond it, a request is told a time
// and promised nothing.
func (l *Lines) Give(a Asker, now, first, each, work float64) (after float64) {
	own := l.line(a.Tenant, now)
	if own == nil {
		return Horizon
	}
	own.weight, own.share = a.Weight, a.Share
	if own.find(a.Request) < 0 && len(own.given) >= max(1, int(a.Share*maxPromises)) {
		return Horizon
	}
	return own.Give(a.Request, now, first, each/a.Share, work)
}

// line is a tenant's own; nil: there are too many.
func (l *Lines) line(tenant string, now float64) *line {
	own := l.of[tenant]
	if own == nil {
		if l.forget(now); len(l.of) >= maxLines {
			return nil
		}
		if l.of == nil {
			l.of = map[string]*line{}
		}
		own = &line{}
		l.of[tenant] = own
	}
	own.Promises.forget(now)
	return own
}

// forget drops lines that nobody is in any more.
func (l *Lines) forget(now float64) {
	for tenant, t := range l.of {
		if t.Promises.forget(now); len(t.given) == 0 && t.until <= now {
			delete(l.of, tenant)
		}
	}
}

// Keep takes a promise out that was kept.
func (l *Lines) Keep(tenant, request string) {
	if own := l.of[tenant]; own != nil {
		own.Promises.Keep(request)
	}
}

// Held is how many of so many places are held while a request asks: for none if it was
// promised one itself, and for no tenant more than its share of them.
func (l *Lines) Held(a Asker, now float64, places int) (held int) {
	if l.due(a, now) {
		return 0
	}
	l.forget(now)
	for _, t := range l.of {
		held += min(len(t.given), int(t.share*float64(places)+0.5))
	}
	return min(held, places)
}

func (l *Lines) due(a Asker, now float64) bool {
	own := l.of[a.Tenant]
	return own != nil && own.Due(a.Request, now)
}

// Promised is what a tenant was promised.
type Promised struct {
	Tenant   string
	Weight   float64
	Requests int
	Work     float64
}

// Until is what each tenant was promised until a time, while a request asks that was
// promised nothing by now.
func (l *Lines) Until(a Asker, now, until float64) (all []Promised) {
	if l.due(a, now) {
		return nil
	}
	l.forget(now)
	for tenant, t := range l.of {
		if n, work := t.before(until); n > 0 {
			all = append(all, Promised{tenant, t.weight, n, work})
		}
	}
	return all
}

// Bucket holds what a tenant may still take. It fills up by a rate, to as much as
// a minute brings, and may be overdrawn by one request, which the next ones wait
// for. The zero value is full.
type Bucket struct {
	spent float64 // of a full one
	at    float64
}

// perMinute is what a bucket holds: what its rate brings in so many seconds.
const perMinute = 60

func (b *Bucket) fill(now, rate float64) {
	if passed := now - b.at; passed > 0 {
		b.spent = max(0, b.spent-passed*rate)
		b.at = now
	}
}

// Wait is for how many seconds a tenant with so much a second has nothing to take.
func (b *Bucket) Wait(now, rate float64) float64 {
	b.fill(now, rate)
	if left := perMinute*rate - b.spent; left > 0 {
		return 0
	}
	return max(b.spent/rate-perMinute, least)
}

// WaitFor is for how many seconds a tenant with so much a second has less than it needs to take, if that is not
// more than a full bucket.
func (b *Bucket) WaitFor(now, rate, need float64) float64 {
	b.fill(now, rate)
	full := perMinute * rate
	if lacks := min(need, full) - (full - b.spent); lacks > 1e-9*full {
		return max(lacks/rate, least)
	}
	return 0
}

// Take takes out of it, or with a negative amount gives back.
func (b *Bucket) Take(now, rate, amount float64) {
	b.fill(now, rate)
	b.spent = max(0, b.spent+amount)
}

// Spent is what was taken out of it that has not come back yet, of a minute's amount.
func (b *Bucket) Spent(now, rate float64) float64 {
	b.fill(now, rate)
	return b.spent
}

// least is the shortest wait that is worth saying.
const least = 0.01
