package cost

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
