package admission

// Bucket holds what a tenant may still take. It fills up by a rate, to as much as
// a minute brings, and may be overdrawn by one request, which the next ones wait
// for. The zero value is full.
type Bucket struct {
	spent float64 // of a full one
	at    float64
}

// perMinute is what a bucket holds: what its rate brings in so many seconds.
const perMinute = 60

// fill brings the bucket up to date.
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
