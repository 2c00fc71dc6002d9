package ledger

import "time"

// Stopwatch tells one stage's time after the other.
type Stopwatch struct{ last time.Time }

// StartAt is a stopwatch whose first lap begins at an instant.
func StartAt(t time.Time) Stopwatch { return Stopwatch{t} }

// Lap is the nanoseconds since the last lap.
func (s *Stopwatch) Lap() uint64 {
	now := time.Now()
	d := max(0, now.Sub(s.last))
	s.last = now
	return uint64(d)
}
