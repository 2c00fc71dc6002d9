package parallel

import (
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// So many at a time are done, and no more.
func TestEach(t *testing.T) {
	const atOnce = 3
	var done, running, most atomic.Int64
	begun := make(chan struct{})
	Each(atOnce, 1, 10, func(i int) {
		n := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		if n == atOnce && done.Load() == 0 {
			close(begun)
		}
		<-begun
		done.Add(int64(i))
	})
	if done.Load() != 45 || most.Load() != atOnce {
		t.Errorf("did %d, %d at once", done.Load(), most.Load())
	}
}
