// Package quarantine decides which expert hosts get no rows because they are slow,
// by what they say of their own work and devices. All times are in seconds.
//
//	trusted ──slow──▶ avoided ──pause──▶ tried ──as fast as others──▶ trusted
//	                     ▲                 │
//	                     └──still slow─────┘   each time for twice as long
//
// A host is slow if it takes several times as long as most others with such a device:
// one whose device is slow by nature is for plans to consider. Its time a row is
// compared with theirs, and its time a message, and the smaller of the two ratios
// counts: reading weights takes as long for one row as for many, so a host that gets
// few rows a message takes long a row, and one that gets many takes long a message,
// though both are as fast.
//
// A host that says that its device throttles is avoided for as long as it says so, and
// trusted then, whether others are as fast or not. When a device throttles is for Throttle to say.
package quarantine

import (
	"maps"
	"math"
	"slices"
)

// State is how far a host is trusted.
type State int

// The states.
const (
	// Trusted gets its share.
	Trusted State = iota
	// Avoided gets nothing that another one can compute.
	Avoided
	// Tried gets a little, which shows whether it is slow still.
	Tried
)

var stateNames = [...]string{"trusted", "avoided", "tried"}

// String is the state as metrics name it.
func (s State) String() string { return stateNames[s] }

// Total is what a host has done since its start.
type Total struct {
	// Device is what computes; hosts are compared with those of the same.
	Device         string
	Messages, Rows float64
	// Seconds is the time in which it computed something; two things at once count once.
	Seconds float64
	// Throttled says that the host asks to be avoided; see Throttle.
	Throttled bool
	// Loads are weights whose loading has begun, and those whose loading has ended. What a host
	// does while it loads is not judged.
	Loads float64
}

// Settings of a judge.
type Settings struct {
	// Times is how many times as long as others a slow host takes.
	Times float64
	// Messages, or Seconds of work, are needed for a judgement.
	Messages, Seconds float64
	// Lasting is for how many seconds a host has to be slow whenever it is looked at, if it was
	// at work for less than Seconds: a few messages that waited for a busy core are no slow host.
	Lasting float64
	// HalfLife is when work weighs half.
	HalfLife float64
	// Memory is for how long others are compared with what a host did when it had
	// enough to do: a very slow host leaves little to them.
	Memory float64
	// Pause is how long a host is avoided at first, Longest at most.
	Pause, Longest float64
}

// Defaults find a host that is ten times as slow within a few seconds, whatever its
// measurements scatter.
func Defaults() Settings {
	return Settings{Times: 5, Messages: 8, Seconds: 0.5, Lasting: 1.5, HalfLife: 1.5, Memory: 30, Pause: 4, Longest: 120}
}

// Change is a decision about a host.
type Change struct {
	Host string
	State
	// Ratio is how many times as long as others it takes.
	Ratio float64
	// Recent is the work that shows it, older work counting less.
	Recent Total
	// For is how long it is avoided.
	For float64
	// Throttle says that the host's own word of its device is why, not its speed.
	Throttle bool
}

// host is what is known of one.
type host struct {
	State
	last   Total // as it was told last
	recent Total
	usual  Total   // what was recent when it told something last
	told   float64 // when that was
	until  float64 // avoided
	since  float64 // trusted
	slow   float64 // since when it has been slow, without a break; NaN: it is not
	pause  float64 // of the newest time that it was avoided
	// throttled says that it is avoided because it throttles.
	throttled bool
}

// Judge watches hosts. It is not safe for concurrent use.
type Judge struct {
	settings Settings
	hosts    map[string]*host
	seen     float64 // when it observed last
}

// New returns a judge that knows nobody.
func New(s Settings) *Judge { return &Judge{settings: s, hosts: map[string]*host{}} }

// Of is how far a host is trusted.
func (j *Judge) Of(id string) State {
	if h := j.hosts[id]; h != nil {
		return h.State
	}
	return Trusted
}

// Doubtful are the hosts that are not trusted; nil if all are.
func (j *Judge) Doubtful() (ids map[string]State) {
	for id, h := range j.hosts {
		if h.State == Trusted {
			continue
		}
		if ids == nil {
			ids = map[string]State{}
		}
		ids[id] = h.State
	}
	return ids
}

// Observe takes in what the live hosts say now, and decides, host by host in the
// order of their names.
func (j *Judge) Observe(now float64, all map[string]Total) (changes []Change) {
	maps.DeleteFunc(j.hosts, func(id string, _ *host) bool { _, lives := all[id]; return !lives })
	keep := math.Exp2(-max(0, now-j.seen) / j.settings.HalfLife)
	j.seen = now
	for id, total := range all {
		j.count(id, total, keep, now)
	}
	for _, id := range slices.Sorted(maps.Keys(j.hosts)) {
		if c, changed := j.decide(id, now); changed {
			changes = append(changes, c)
		}
	}
	return changes
}

// count adds a host's work since the last time to what is recent.
func (j *Judge) count(id string, total Total, keep, now float64) {
	h := j.hosts[id]
	if h == nil {
		j.hosts[id] = &host{last: total, since: now, slow: math.NaN()}
		return
	}
	added := total.since(h.last)
	h.recent = Total{
		Device:   total.Device,
		Messages: keep*h.recent.Messages + added.Messages,
		Rows:     keep*h.recent.Rows + added.Rows,
		Seconds:  keep*h.recent.Seconds + added.Seconds,
	}
	h.last = total
	if h.State == Trusted && j.tells(h.recent) {
		h.usual, h.told = h.recent, now
	}
}

// since is what a host has done since it told before; nothing if it loaded weights meanwhile.
func (t Total) since(before Total) Total {
	if t.Loads != before.Loads {
		return Total{}
	}
	return Total{
		Messages: max(0, t.Messages-before.Messages), Rows: max(0, t.Rows-before.Rows), Seconds: max(0, t.Seconds-before.Seconds),
	}
}

func (j *Judge) decide(id string, now float64) (c Change, changed bool) {
	h := j.hosts[id]
	if h.last.Throttled != h.throttled {
		return h.throttle(id, now), true
	}
	if h.State == Avoided {
		if h.throttled || now < h.until {
			return c, false
		}
		h.State, h.recent, h.slow = Tried, Total{}, math.NaN() // judged by what comes from now on
		return Change{Host: id, State: Tried}, true
	}
	ratio, known := j.ratio(id, now)
	switch {
	case !known:
		return c, false
	case ratio >= j.settings.Times && !h.lasts(now, j.settings.Lasting) && h.recent.Seconds < j.settings.Seconds:
		return c, false
	case ratio >= j.settings.Times:
		h.avoid(now, j.settings)
		return Change{Host: id, State: Avoided, Ratio: ratio, Recent: h.recent, For: h.pause}, true
	}
	h.slow = math.NaN()
	if h.State == Tried {
		h.State, h.since = Trusted, now
		return Change{Host: id, State: Trusted, Ratio: ratio, Recent: h.recent}, true
	}
	return c, false
}

func (h *host) lasts(now, long float64) bool {
	if math.IsNaN(h.slow) {
		h.slow = now
	}
	return now-h.slow >= long
}

// throttle begins or ends the time of a host whose device throttles.
func (h *host) throttle(id string, now float64) Change {
	h.throttled = !h.throttled
	if h.throttled {
		h.State = Avoided
	} else {
		h.State, h.since, h.recent, h.slow = Trusted, now, Total{}, math.NaN() // what it did while it was slow says nothing now
	}
	return Change{Host: id, State: h.State, Throttle: true}
}

// avoid begins a pause: a longer one if the host was slow not long ago.
func (h *host) avoid(now float64, s Settings) {
	if relapse := h.State == Tried || now-h.since < 4*h.pause; relapse {
		h.pause = min(2*h.pause, s.Longest)
	} else {
		h.pause = s.Pause
	}
	h.State, h.until, h.slow = Avoided, now+h.pause, math.NaN()
}

// ratio is how many times as long as most other trusted hosts one takes: half of
// them, or more, are at least so much faster.
func (j *Judge) ratio(id string, now float64) (ratio float64, known bool) {
	h := j.hosts[id]
	if !j.tells(h.recent) {
		return 0, false
	}
	var ratios []float64
	for other, o := range j.hosts {
		if other != id && o.last.Device == h.last.Device && o.State == Trusted && now-o.told < j.settings.Memory && j.tells(o.usual) {
			ratios = append(ratios, h.recent.slower(o.usual))
		}
	}
	if len(ratios) == 0 {
		return 0, false
	}
	slices.Sort(ratios)
	return ratios[(len(ratios)-1)/2], true
}

func (j *Judge) tells(r Total) bool {
	return r.Rows > 0 && r.Seconds > 0 && (r.Messages >= j.settings.Messages || r.Seconds >= j.settings.Seconds)
}

// slower is how many times as long as another host one takes, at least.
func (t Total) slower(than Total) float64 {
	return t.Seconds / than.Seconds * min(than.Rows/t.Rows, max(1, than.Messages)/max(1, t.Messages))
}

// Throttle is for how much of the recent time a device has been slowed, by heat or for
// want of power. A host whose device is slowed for most of it asks to be avoided, so
// that the device cools while others compute, until it is hardly slowed any more.
type Throttle struct {
	// Share of the time, older time counting less.
	Share float64
	// Avoid reports whether others should compute what the host would.
	Avoid bool
}

const (
	// throttleHalfLife makes ten seconds of being slowed enough, and no moment.
	throttleHalfLife = 5.0
	throttledFrom    = 0.75
	throttledUntil   = 0.1
	// longestLook bounds what one look stands for: a process may have stood still.
	longestLook = 2.0
)

// After is what follows when a device was found slowed or not, so many seconds after
// the last look.
func (t Throttle) After(seconds float64, slowed bool) Throttle {
	keep := math.Exp2(-min(max(0, seconds), longestLook) / throttleHalfLife)
	t.Share *= keep
	if slowed {
		t.Share += 1 - keep
	}
	switch {
	case t.Share >= throttledFrom:
		t.Avoid = true
	case t.Share <= throttledUntil:
		t.Avoid = false
	}
	return t
}
