package layer

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
)

// BenchmarkPatience is what it takes to know when a layer's rows are late, and to learn
// from their return: twice a lock, a timer and the estimate.
func BenchmarkPatience(b *testing.B) {
	l, took := newLatency(), &ledger.Layer{Layer: 3}
	for stage := range took.By {
		took.By[stage] = time.Duration(stage+1) * 10 * time.Microsecond
	}
	for range 1000 { // until enough is known
		l.observe(1, took, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.sent()
		newWait(l.limits(took.Layer, 1)).timer.Stop()
		l.observe(1, took, 0)
	}
}
