// Package testkit is what the tests of many packages share.
package testkit

import (
	"testing"
	"time"
)

// Patience is far beyond what anything takes, also on a machine that is busy: it ends
// waits that would have no end, in tests that fail.
const Patience = 2 * time.Minute

const pause = 2 * time.Millisecond

// Eventually looks until something has happened, and fails the test when it
// does not.
func Eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !happened(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", Patience, what)
		}
	}
}
