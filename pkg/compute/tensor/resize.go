package tensor

import "slices"

// Resize returns a slice of n elements, with s's memory if that suffices. What
// the elements hold is unspecified: it is for buffers that are filled anew.
func Resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
