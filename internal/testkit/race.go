//go:build race

package testkit

import (
	"maps"
	"slices"
)

// Race says that the race detector is on, under which computing takes ten times as
// long: tests of much computing in one goroutine then take a part of it.
const Race = true

// Some returns the cases of a test whose goroutines are the same in all: those that differ in what
// is computed, which the run without the race detector compares. Under it, the first.
func Some[T any](cases []T) []T { return cases[:1] }

// SomeOf is Some of cases by name.
func SomeOf[V any](cases map[string]V) map[string]V {
	first := slices.Min(slices.Collect(maps.Keys(cases)))
	return map[string]V{first: cases[first]}
}
