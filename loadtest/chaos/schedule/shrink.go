package schedule

import "slices"

// Shrink looks for a short part of a schedule that still fails, by delta
// debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
// input", 2002, section 3): it leaves parts out, ever smaller ones. It asks fails
// at most runs times, and returns the shortest that has failed.
func Shrink(s Schedule, runs int, fails func(Schedule) bool) Schedule {
	parts := 2
	for len(s) > 1 && parts <= len(s) && runs > 0 {
		shorter, asked := without(s, parts, runs, fails)
		runs -= asked
		switch {
		case shorter != nil:
			s, parts = shorter, max(2, min(parts-1, len(shorter)))
		case parts == len(s):
			return s
		default:
			parts = min(2*parts, len(s))
		}
	}
	return s
}

// without leaves one of so many parts out, the last first: what comes after a
// failure has no part in it.
func without(s Schedule, parts, runs int, fails func(Schedule) bool) (shorter Schedule, asked int) {
	for i := parts - 1; i >= 0 && asked < runs; i-- {
		rest := slices.Concat(s[:i*len(s)/parts], s[(i+1)*len(s)/parts:])
		asked++
		if fails(rest) {
			return rest, asked
		}
	}
	return nil, asked
}
