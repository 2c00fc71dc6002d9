// Package testkit is what the tests of many packages share.
package testkit

import (
	"testing"
	"time"
)

const (
	// limit is far beyond what anything takes, also on a machine that is busy.
	limit = 2 * time.Minute
	pause = 2 * time.Millisecond
)

// Eventually looks until something has happened, and fails the test when it
// does not.
func Eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !happened(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", limit, what)
		}
	}
}
