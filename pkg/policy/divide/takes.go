package divide

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

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
