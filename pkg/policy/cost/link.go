package cost

import (
	"fmt"
	"math"
)

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
