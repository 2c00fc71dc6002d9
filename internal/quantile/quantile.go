// Package quantile reads quantiles off sorted numbers, the same way in all reports.
package quantile

// Of returns what the share q, 0 to 1, of ascending numbers does not exceed; 0 of none.
func Of[T float32 | float64](ascending []T, q float64) T {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(len(ascending)-1, int(q*float64(len(ascending))))]
}
