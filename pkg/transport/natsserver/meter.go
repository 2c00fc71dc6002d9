package natsserver

import "time"

// NATS has no bound for what a user publishes in a second, and all accounts share the server's
// processors and its streams: who sends a hundred thousand messages a second keeps everybody
// waiting, whatever becomes of them. So what each tenant's producers send is counted, and who
// sends more than anybody could be answered is kept out for a while.

// traffic is what an account's connections have had of the server, all together.
type traffic struct {
	// Sent and Bytes are what they have published; Got is what was sent to those that are
	// here still: the server counts what crosses accounts for who has sent it.
	Sent, Bytes, Got int64
}

var (
	// mostTraffic is what a tenant may have in a second, and burst what it may have at once. A
	// message to many subscriptions counts for each of them.
	mostTraffic = traffic{Sent: 2000, Bytes: 16 << 20, Got: 50_000}
	burst       = traffic{Sent: 8000, Bytes: 64 << 20, Got: 200_000}
)

// suspension is how long a tenant's producers are kept out who had more.
const suspension = 2 * time.Second

// meter measures a tenant's traffic: what is spent runs off at the rate that it may have.
type meter struct {
	at    time.Time
	seen  traffic
	spent [3]float64 // of Sent, Bytes and Got
	// until is when a suspension ends; zero: there is none.
	until time.Time
}

// bounds are the name, the rate and the burst of what is counted.
var bounds = [3]struct {
	what         string
	rate, atOnce int64
}{
	{"messages published", mostTraffic.Sent, burst.Sent},
	{"bytes published", mostTraffic.Bytes, burst.Bytes},
	{"messages received", mostTraffic.Got, burst.Got},
}

// measure takes in all that was counted until now, and returns the bound that is exceeded; -1
// if none is.
func (m *meter) measure(now time.Time, all traffic) (over int) {
	over = -1
	passed := now.Sub(m.at).Seconds()
	for i, more := range [3]int64{all.Sent - m.seen.Sent, all.Bytes - m.seen.Bytes, all.Got - m.seen.Got} {
		if !m.at.IsZero() {
			m.spent[i] = max(0, m.spent[i]-passed*float64(bounds[i].rate))
		}
		m.spent[i] += float64(max(0, more)) // connections end, and what they had goes with them
		if m.spent[i] > float64(bounds[i].atOnce) {
			m.spent[i] = float64(bounds[i].atOnce) // a suspension pays for the rest
			over = i
		}
	}
	m.at, m.seen = now, all
	return over
}
