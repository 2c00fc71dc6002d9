package cost

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Access is what a device computes at once with one unit.
type Access struct {
	// Bytes are the unit's weights as the device holds them.
	Bytes float64
	// Rows are the token rows that came for it.
	Rows int
}

// Timer says how long a device takes for an access. An access without rows takes
// no time, and more rows never take less.
type Timer interface {
	Seconds(Access) float64
}

// Device is what computes accesses, one after the other.
type Device struct {
	Timer
	// Call are the seconds that a call takes beside its accesses: launches, and the
	// ordering of rows by expert. A call has one access or several.
	Call float64
}

// Compute is the time of one call.
func (d Device) Compute(accesses ...Access) (seconds float64) {
	for _, a := range accesses {
		seconds += d.Seconds(a)
	}
	if seconds > 0 {
		seconds += d.Call
	}
	return seconds
}

// Roofline is a device as its data sheet has it.
type Roofline struct {
	// Bandwidth is the bytes a second at which kernels read weights.
	Bandwidth float64
	// Rate is the floating-point operations a second that kernels reach.
	Rate float64
	// Overhead are the seconds of an access beside both.
	Overhead float64
	// ElementBytes are the bytes of one parameter: a row costs two operations for each.
	ElementBytes float64
}

// Seconds is Overhead + max(Bytes/Bandwidth, 2·Rows·Bytes/ElementBytes/Rate).
func (r Roofline) Seconds(a Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	return r.Overhead + max(a.Bytes/r.Bandwidth, float64(a.Rows)*r.Row(a.Bytes))
}

// Row is what one more row takes where computing, not reading, is what takes longest.
func (r Roofline) Row(bytes float64) float64 { return 2 * bytes / r.ElementBytes / r.Rate }

// Ridge is the number of rows from which on computing takes longer than reading.
func (r Roofline) Ridge() float64 { return r.ElementBytes * r.Rate / 2 / r.Bandwidth }

// Printed is MoEless's T = α·rows (arXiv:2603.06350, §3.3).
type Printed struct {
	// Alpha is the seconds of a row.
	Alpha float64
}

// Seconds is Alpha·Rows, whatever is read.
func (p Printed) Seconds(a Access) float64 { return p.Alpha * float64(max(0, a.Rows)) }

// Curve is a device as it was measured: seconds of an access by its rows, for a unit
// of so many bytes. A unit of other bytes takes proportionally as long.
type Curve struct {
	bytes  float64
	points []Point
}

// Point is one measurement.
type Point struct {
	Rows    int
	Seconds float64
}

// NewCurve takes measurements of accesses to units of so many bytes, in the order of
// their rows. A point that is below the one before it, as noise makes some, is
// lifted to that: more rows never take less.
func NewCurve(bytes float64, points []Point) (*Curve, error) {
	if !(bytes > 0) || math.IsInf(bytes, 0) {
		return nil, fmt.Errorf("a curve is of units of %v bytes; that must be above 0", bytes)
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("a curve has no points; it needs one at least")
	}
	c := &Curve{bytes: bytes, points: slices.Clone(points)}
	for i, p := range c.points {
		switch {
		case p.Rows < 1 || !(p.Seconds > 0) || math.IsInf(p.Seconds, 0):
			return nil, fmt.Errorf("point %d of a curve is %d rows in %v s; both must be above 0", i, p.Rows, p.Seconds)
		case i > 0 && p.Rows <= c.points[i-1].Rows:
			return nil, fmt.Errorf("point %d of a curve has %d rows and the one before it %d; rows must ascend", i, p.Rows, c.points[i-1].Rows)
		case i > 0:
			c.points[i].Seconds = max(p.Seconds, c.points[i-1].Seconds)
		}
	}
	return c, nil
}

// Seconds is read off the line between the points beside a.Rows. Below the first point
// it is that point's; beyond the last one the line through the last two goes on.
func (c *Curve) Seconds(a Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	return c.at(a.Rows) * a.Bytes / c.bytes
}

func (c *Curve) at(rows int) float64 {
	i, exact := slices.BinarySearchFunc(c.points, rows, func(p Point, rows int) int { return p.Rows - rows })
	switch last := len(c.points) - 1; {
	case exact:
		return c.points[i].Seconds
	case i == 0:
		return c.points[0].Seconds
	case i <= last:
		return between(c.points[i-1], c.points[i], rows)
	case last == 0:
		return c.points[0].Seconds * float64(rows) / float64(c.points[0].Rows)
	default:
		return between(c.points[last-1], c.points[last], rows)
	}
}

// between is the line through two points at so many rows.
func between(a, b Point, rows int) float64 {
	return a.Seconds + (b.Seconds-a.Seconds)*float64(rows-a.Rows)/float64(b.Rows-a.Rows)
}

// Link is a way that bytes take: from a store or a machine's memory to a device's, or
// between machines.
type Link struct {
	// Latency are the seconds from the want to the first byte, cold starts included.
	Latency float64
	// Bandwidth is the bytes a second; 0 takes no time.
	Bandwidth float64
}

// Transfer is what so many bytes take on the link, in seconds.
func (l Link) Transfer(bytes float64) float64 {
	if l.Bandwidth == 0 {
		return 0
	}
	return bytes / l.Bandwidth
}

// Seconds is the time of bytes that have the link to themselves.
func (l Link) Seconds(bytes float64) float64 { return l.Latency + l.Transfer(bytes) }

// Done is when bytes have come that are wanted at a time, on a link that is free from
// another. Transfers have a link one after the other; their latencies overlap.
func (l Link) Done(wanted, free, bytes float64) float64 {
	return max(free, wanted+l.Latency) + l.Transfer(bytes)
}

// Check says what is wrong with a link.
func (l Link) Check() error {
	if !(l.Latency >= 0 && l.Bandwidth >= 0) || math.IsInf(l.Latency+l.Bandwidth, 0) {
		return fmt.Errorf("latency is %v s and bandwidth %v bytes a second; both must be finite, and 0 or above", l.Latency, l.Bandwidth)
	}
	return nil
}

// Messages is what a layer takes for the messages of its rows.
type Messages struct {
	// Each are the seconds that one more message makes a layer take, with its answer.
	Each float64
	// Row are those that a row's bytes take, there and back.
	Row float64
}

// Seconds is the time of so many messages with so many rows on the busiest way.
func (m Messages) Seconds(messages, rows int) float64 {
	return m.Each*float64(max(0, messages)) + m.Row*float64(max(0, rows))
}

// Sent is a timer of accesses each of which comes in a message of its own.
type Sent struct {
	Timer
	Messages
}

// Seconds is the access and its message; without rows there is neither.
func (s Sent) Seconds(a Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	return s.Timer.Seconds(a) + s.Messages.Seconds(1, a.Rows)
}

// Speeds are times of accesses as they were measured, by the memory of what computes: a curve by rows
// for each size.
type Speeds struct {
	sizes  []float64
	curves []*Curve
}

// NewSpeeds takes a curve for each of some sizes of memory, which ascend.
func NewSpeeds(sizes []float64, curves []*Curve) (*Speeds, error) {
	if len(sizes) == 0 || len(curves) != len(sizes) {
		return nil, fmt.Errorf("there are %d memory sizes and %d curves of times; each size has one, and there must be one or more", len(sizes), len(curves))
	}
	for i, size := range sizes {
		if !(size > 0) || math.IsInf(size, 0) || i > 0 && size <= sizes[i-1] || curves[i] == nil {
			return nil, fmt.Errorf("size %d is %v bytes; sizes are above 0 and ascend, and each has a curve", i, size)
		}
	}
	return &Speeds{slices.Clone(sizes), slices.Clone(curves)}, nil
}

// Seconds is what an access takes with so much memory: on the line between the sizes beside it.
// Below the first size it grows as memory shrinks, and beyond the last one it stays.
func (s *Speeds) Seconds(size float64, a Access) float64 {
	i, exact := slices.BinarySearch(s.sizes, size)
	switch last := len(s.sizes) - 1; {
	case exact:
		return s.curves[i].Seconds(a)
	case i == 0:
		return s.curves[0].Seconds(a) * s.sizes[0] / size
	case i > last:
		return s.curves[last].Seconds(a)
	}
	part := (size - s.sizes[i-1]) / (s.sizes[i] - s.sizes[i-1])
	return s.curves[i-1].Seconds(a)*(1-part) + s.curves[i].Seconds(a)*part
}

// Measurement is a call of so many like accesses, and what it took.
type Measurement struct {
	Accesses int
	Access
	Seconds float64
}

// ErrOneSide says that measurements tell nothing of reading, or nothing of computing.
var ErrOneSide = errors.New("all measurements are on one side of the ridge")

// Fit is the roofline that comes nearest to measured calls: the one with the least sum
// of squared relative errors. elementBytes are those of a parameter. It needs
// measurements on both sides of the ridge; where all are on one side, nothing is known of
// the other side's constant, and the fit is refused.
func Fit(elementBytes float64, measured []Measurement) (Roofline, float64, error) {
	if len(measured) < constants {
		return Roofline{}, 0, fmt.Errorf("%d measurements are given; a device has %d constants and needs as many", len(measured), constants)
	}
	for i, m := range measured {
		if m.Accesses < 1 || m.Rows < 1 || !(m.Bytes > 0) || !(m.Seconds > 0) {
			return Roofline{}, 0, fmt.Errorf("measurement %d is %d accesses of %d rows to %v bytes in %v s; all must be above 0",
				i, m.Accesses, m.Rows, m.Bytes, m.Seconds)
		}
	}
	g := descend(begin(elementBytes, measured), measured)
	if !sides(g.Roofline, measured) {
		return g.Roofline, g.call, fmt.Errorf("%w at %.0f rows; measure fewer and more rows", ErrOneSide, g.Ridge())
	}
	return g.Roofline, g.call, nil
}

// Error is the root of the mean squared relative error of a device on measurements.
func Error(d Device, measured []Measurement) float64 {
	sum := 0.0
	for _, m := range measured {
		off := (d.Call+float64(m.Accesses)*d.Seconds(m.Access))/m.Seconds - 1
		sum += off * off
	}
	return math.Sqrt(sum / float64(max(1, len(measured))))
}

// constants are those that a fit looks for.
const constants = 4

// guess is what the fit has so far.
type guess struct {
	Roofline
	call float64
}

func (g *guess) constants() [constants]*float64 {
	return [constants]*float64{&g.Bandwidth, &g.Rate, &g.Overhead, &g.call}
}

func (g guess) error(measured []Measurement) float64 {
	return Error(Device{Timer: g.Roofline, Call: g.call}, measured)
}

// begin is as fast as the fastest measurements, with a tenth of the shortest as overhead.
func begin(elementBytes float64, measured []Measurement) guess {
	g := guess{Roofline: Roofline{ElementBytes: elementBytes}, call: math.Inf(1)}
	for _, m := range measured {
		each := m.Seconds / float64(m.Accesses)
		g.Bandwidth = max(g.Bandwidth, m.Bytes/each)
		g.Rate = max(g.Rate, 2*float64(m.Rows)*m.Bytes/elementBytes/each)
		g.call = min(g.call, m.Seconds/10)
		g.Overhead = g.call / 10
	}
	return g
}

// descend multiplies or divides constants, one or two at a time, as long as that helps,
// and then by smaller factors. Two at a time: what one constant loses another may gain.
func descend(g guess, measured []Measurement) guess {
	best := g.error(measured)
	for step := 2.0; step > 1.0001; {
		better := false
		for _, next := range g.neighbours(step) {
			if e := next.error(measured); e < best {
				g, best, better = next, e, true
			}
		}
		if !better {
			step = math.Sqrt(step)
		}
	}
	return g
}

// neighbours are the guesses with one or two constants multiplied or divided by a step.
func (g guess) neighbours(step float64) (all []guess) {
	for i := range constants {
		for j := range i + 1 {
			for _, by := range [][2]float64{{step, step}, {step, 1 / step}, {1 / step, step}, {1 / step, 1 / step}} {
				next := g
				*next.constants()[i] *= by[0]
				if j < i {
					*next.constants()[j] *= by[1]
				}
				all = append(all, next)
			}
		}
	}
	return all
}

// sides reports whether there are measurements on both sides of the ridge.
func sides(r Roofline, measured []Measurement) bool {
	below, above := false, false
	for _, m := range measured {
		below = below || float64(m.Rows) < r.Ridge()
		above = above || float64(m.Rows) > r.Ridge()
	}
	return below && above
}
