// Package reuse lets buffers be filled anew in the memory that they have.
package reuse

import "slices"

// Slice returns a slice of n elements, in s's memory if that suffices. What the elements hold is
// unspecified.
func Slice[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
