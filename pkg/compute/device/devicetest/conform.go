package devicetest

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
)

// New makes a device whose loads call Faults.Begin first. Layer 0 of its model
// has at least four experts, all of one size, and rows of Hidden elements.
type New func(t testing.TB, s device.Settings) (device.Device, *Faults)

// Hidden is the size of rows.
const Hidden = 64

// Conform runs the tests that every device must pass.
func Conform(t *testing.T, create New) {
	for _, tc := range []struct {
		name string
		run  func(*testing.T, New)
	}{
		{"load", testLoad},
		{"priority", testPriority},
		{"move up", testMovesUp},
		{"at a time", testAtATime},
		{"cancel a waiting load", testCancelWaiting},
		{"cancel a running load", testCancelRunning},
		{"cancel too late", testCancelTooLate},
		{"context", testContext},
		{"want again", testWantAgain},
		{"share a load", testShare},
		{"fail", testFail},
		{"unknown expert", testUnknown},
		{"ended", testEnded},
		{"close", testClose},
		{"refuse", testRefuse},
		{"below one expert", testBelowOneExpert},
		{"evict", testEvict},
		{"evict for a load", testEvictForLoad},
		{"evict in another order", testEvictFirst},
		{"compute", testCompute},
		{"any order", testAnyOrder},
		{"at once", testAtOnce},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, create) })
	}
}
