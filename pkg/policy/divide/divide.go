package divide

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Expert is what one of a layer's experts has to compute, and where it can.
type Expert struct {
	Rows int
	// Hosts have a replica that is warm. There must be one at least. The first is its
	// home, where all its rows go when no division ends a layer sooner.
	Hosts []int
	// Units are how many experts it stands for, of which each share reads all; 0 is 1.
	Units int
}

// Home is the host, by its place in the list of all, that a deal in turn gives the expert of
// this index.
func Home(expert, hosts int) int { return expert % hosts }

// HomeFirst puts an expert's home, where it is one of its hosts, before the others.
func HomeFirst(on []int, expert, hosts int) {
	if len(on) < 2 {
		return
	}
	if at := slices.Index(on, Home(expert, hosts)); at > 0 {
		home := on[at]
		copy(on[1:at+1], on[:at])
		on[0] = home
	}
}

// Share is a part of an expert's rows that one host computes.
type Share struct{ Expert, Host, Rows int }

// Even gives each host of an expert as many rows as the others, one more to the first
// ones from the turn on where they do not come out even. It adds to to.
func Even(to []Share, experts []Expert, turn int) []Share {
	for e, x := range experts {
		n := len(x.Hosts)
		for i, h := range x.Hosts {
			rows := x.Rows / n
			if (i+e+turn)%n < x.Rows%n {
				rows++
			}
			if rows > 0 {
				to = append(to, Share{e, h, rows})
			}
		}
	}
	return to
}

// Divider divides rows so that the busiest of some hosts is done soonest. It is not safe
// for concurrent use: it keeps its buffers.
type Divider struct {
	device cost.Device
	bytes  float64 // of an expert
	busy   []float64
	spread []float64 // busy, as Spread divides
	on     [][]int   // the shares of each host
	asked  []asked   // of experts, in this division or the one before
	times  []float64 // of experts, on one host
	order  []int     // of experts with rows
	hosts  []int
	parts  []int
	best   []int
}

// asked is what of an expert says how long it takes on one host.
type asked struct{ units, rows int }

// New divides among so many hosts of one device, for experts of so many bytes each.
func New(d cost.Device, expertBytes float64, hosts int) *Divider {
	return &Divider{device: d, bytes: expertBytes, busy: make([]float64, hosts)}
}

// Least divides the rows of a layer as Spread does, or, where the experts' homes by
// themselves end no later, leaves all rows there. It adds to to. Longest first has Graham's
// bound only where all hosts have all experts: of random layers of up to 6 hosts, 12 experts and
// 2,000 rows each, Even ended more than 2 % sooner in 1 to 3 %, by 36 % at most.
func (d *Divider) Least(to []Share, experts []Expert) []Share {
	if d.alone(experts) {
		return d.home(to, experts)
	}
	before := len(to)
	to = d.Spread(to, experts)
	soonest := d.Ends()
	d.spread = append(d.spread[:0], d.busy...)
	clear(d.busy)
	for _, e := range d.order {
		d.busy[experts[e].Hosts[0]] += d.times[e]
	}
	if d.Ends() > soonest {
		copy(d.busy, d.spread)
		return to
	}
	to = to[:before]
	for _, e := range d.order {
		to = append(to, Share{e, experts[e].Hosts[0], experts[e].Rows})
	}
	return to
}

// alone reports whether no expert with rows has more than one host.
func (d *Divider) alone(experts []Expert) bool {
	for i := range experts {
		if experts[i].Rows > 0 && len(experts[i].Hosts) > 1 {
			return false
		}
	}
	return true
}

// home leaves all rows at the experts' homes.
func (d *Divider) home(to []Share, experts []Expert) []Share {
	clear(d.busy)
	for e := range experts {
		if x := &experts[e]; x.Rows > 0 {
			d.busy[x.Hosts[0]] += d.takes(x.Units, x.Rows)
			to = append(to, Share{e, x.Hosts[0], x.Rows})
		}
	}
	return to
}

// Spread divides the rows of a layer. It adds to to. The expert that takes longest comes
// first, of equals the one with fewest hosts, as in longest processing time first (Graham
// 1969); it goes to so many of its hosts, the least busy first, as end it soonest. Then
// whole shares move off the busiest hosts, as far as they can.
func (d *Divider) Spread(to []Share, experts []Expert) []Share {
	before := len(to)
	d.sort(experts)
	clear(d.busy)
	for _, e := range d.order {
		to = d.place(to, e, experts[e])
	}
	d.relieve(to[before:], experts)
	return to
}

// sort notes the experts that have rows in the order in which they are placed. Whoever
// compares divisions asks for the same rows again, with another host of one expert: then the
// times are known, and the order is nearly right.
func (d *Divider) sort(experts []Expert) {
	if !d.recall(experts) {
		slices.SortFunc(d.order, func(a, b int) int { return d.compare(experts, a, b) })
		return
	}
	for i, e := range d.order {
		at := i
		for ; at > 0 && d.compare(experts, d.order[at-1], e) > 0; at-- {
			d.order[at] = d.order[at-1]
		}
		d.order[at] = e
	}
}

// recall notes what each expert takes, and reports whether all are asked for as much as in the
// division before; else the experts with rows are in their own order.
func (d *Divider) recall(experts []Expert) (same bool) {
	if len(d.asked) != len(experts) { // no expert has rows
		d.asked, d.times, d.order = make([]asked, len(experts)), make([]float64, len(experts)), make([]int, 0, len(experts))
	}
	same = true
	for e := range experts {
		now := asked{experts[e].Units, experts[e].Rows}
		if now != d.asked[e] {
			same, d.asked[e], d.times[e] = false, now, d.takes(now.units, now.rows)
		}
	}
	if same {
		return true
	}
	d.order = d.order[:0]
	for e := range experts {
		if experts[e].Rows > 0 {
			d.order = append(d.order, e)
		}
	}
	return false
}

// compare is the order of Spread; no two experts are equal.
func (d *Divider) compare(experts []Expert, a, b int) int {
	if d.times[a] != d.times[b] {
		return cmp.Compare(d.times[b], d.times[a])
	}
	return cmp.Or(len(experts[a].Hosts)-len(experts[b].Hosts), experts[b].Rows-experts[a].Rows, a-b)
}

// Busy are the seconds of each host by the last division. It is valid until the next one.
func (d *Divider) Busy() []float64 { return d.busy }

// Ends is when the busiest host is done by the last division, in seconds.
func (d *Divider) Ends() (seconds float64) {
	for _, b := range d.busy {
		if b > seconds {
			seconds = b
		}
	}
	return seconds
}

func (d *Divider) place(to []Share, e int, x Expert) []Share {
	if len(x.Hosts) == 1 {
		d.busy[x.Hosts[0]] += d.times[e]
		return append(to, Share{e, x.Hosts[0], x.Rows})
	}
	d.hosts = append(d.hosts[:0], x.Hosts...)
	slices.SortFunc(d.hosts, func(a, b int) int { return cmp.Or(cmp.Compare(d.busy[a], d.busy[b]), a-b) })
	soonest, least := math.Inf(1), d.takes(x.Units, 1)
	for k := range d.hosts {
		if k > 0 && d.busy[d.hosts[k]]+least >= soonest*(1-worth) {
			break // one row there would end it too late
		}
		if end := d.fill(d.hosts[:k+1], x); end < soonest*(1-worth) {
			soonest = end
			d.best = append(d.best[:0], d.parts...)
		}
	}
	for i, rows := range d.best {
		if rows > 0 {
			d.busy[d.hosts[i]] += d.takes(x.Units, rows)
			to = append(to, Share{e, d.hosts[i], rows})
		}
	}
	return to
}

// worth is the part of an end that one host more has to save: it is a message more, too.
const worth = 0.02

func (d *Divider) takes(units, rows int) float64 {
	return d.device.Seconds(cost.Access{Bytes: d.bytes * float64(max(1, units)), Rows: rows})
}

// fill divides rows among hosts so that they end together, as far as a line through
// the times of their mean and twice that tells, and says when the last one ends. What each
// has is in d.parts.
func (d *Divider) fill(hosts []int, x Expert) (end float64) {
	rows := x.Rows
	d.parts = reuse.Slice(d.parts, len(hosts))
	clear(d.parts)
	mean := max(1, rows/len(hosts))
	slope := (d.takes(x.Units, 2*mean) - d.takes(x.Units, mean)) / float64(mean)
	left := rows
	if slope > 0 {
		level := float64(rows) * slope / float64(len(hosts))
		for _, h := range hosts {
			level += d.busy[h] / float64(len(hosts))
		}
		for i, h := range hosts {
			d.parts[i] = min(left, max(0, int((level-d.busy[h])/slope)))
			left -= d.parts[i]
		}
	}
	for i := 0; left > 0; i = (i + 1) % len(hosts) { // what rounding left, or all of it
		part := (left + len(hosts) - i - 1) / (len(hosts) - i)
		d.parts[i] += part
		left -= part
	}
	for i, h := range hosts {
		if d.parts[i] > 0 {
			end = max(end, d.busy[h]+d.takes(x.Units, d.parts[i]))
		}
	}
	return end
}

// Takes is what hosts take for the accesses of one layer, in seconds, as a plan tells gates.
type Takes struct {
	// Read is reading an expert's weights, and Row computing one row meanwhile.
	Read, Row float64
	// Unit is an expert's beside both, and Call a message's beside its experts.
	Unit, Call float64
}

// mostSeconds bounds each of Takes: an access of longer is no access.
const mostSeconds = 3600

// Check says what no device takes.
func (t Takes) Check() error {
	for _, c := range []struct {
		what    string
		seconds float64
	}{{"reading an expert", t.Read}, {"a row", t.Row}, {"an expert beside its rows", t.Unit}, {"a message", t.Call}} {
		if !(c.seconds >= 0 && c.seconds <= mostSeconds) { // which NaN is not
			return fmt.Errorf("%s takes %v s; it must be 0 to %d", c.what, c.seconds, mostSeconds)
		}
	}
	return nil
}

// many is a number of rows whose computing takes far longer than reading weights.
const many = 1 << 24

// TakesOf is what accesses of a device take for experts of so many bytes, each in a message
// of its own that takes so many seconds more. Of a measured curve it keeps the first row and the slope of many.
func TakesOf(d cost.Device, expertBytes, message float64) Takes {
	seconds := func(rows int) float64 { return d.Seconds(cost.Access{Bytes: expertBytes, Rows: rows}) }
	t := Takes{Call: d.Call + message, Row: (seconds(2*many) - seconds(many)) / many}
	if t.Unit = seconds(many) - many*t.Row; t.Unit < seconds(many)*1e-9 { // what rounding leaves
		t.Unit = 0
	}
	t.Read = max(0, seconds(1)-t.Unit)
	return t
}

// Device is a device of which accesses take that, for experts of so many bytes.
func (t Takes) Device(expertBytes float64) cost.Device {
	return cost.Device{Timer: timer{t, expertBytes}}
}

type timer struct {
	Takes
	bytes float64 // of an expert
}

// Seconds is the time of a message with rows for the experts that the access's bytes are of.
func (t timer) Seconds(a cost.Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	experts := a.Bytes / t.bytes
	return t.Call + experts*t.Unit + max(experts*t.Read, float64(a.Rows)*t.Row)
}
