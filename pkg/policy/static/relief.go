package static

import "slices"

// Relief is the host on which an expert is to be, too, so that rows can pass by those that it
// is on: one that pick finds, if their devices all throttle. It is less than 0 where none do,
// or pick has found none.
func Relief(on []int, throttles func(host int) bool, pick func() int) int {
	if len(on) == 0 || slices.ContainsFunc(on, func(h int) bool { return !throttles(h) }) {
		return -1
	}
	return pick()
}
