package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

var (
	mu   sync.Mutex
	most int64 // that may gather; 0: nothing was said
)

// BoundGarbage has at most about so many bytes gather between two of Go's collections, from now on, unless
// GOGC says otherwise. Go bounds it as a share of what lives; but pages of keys and values, and what many
// streams have, come to live later than weights, and are no reason for more garbage.
// The least that anybody says counts. Where much lives it is a tenth of that, so that collecting does not
// take more than it gives.
func BoundGarbage(bytes int64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	mu.Lock()
	first := most == 0
	if first || bytes < most {
		most = bytes
	}
	mu.Unlock()
	if first {
		watch()
	}
	adapt()
}

// mark is collected by the next collection, which it so tells of. It has a pointer so that Go gives it a
// block of memory of its own: finalizers of objects that share one may never run.
type mark struct{ _ *mark }

// watch adapts the share behind each collection.
func watch() {
	runtime.SetFinalizer(&mark{}, func(*mark) {
		adapt()
		watch()
	})
}

// adapt sets the share of what lives, if it is another one by more than a tenth: all goroutines wait
// for that.
func adapt() {
	all := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(all)
	mu.Lock()
	defer mu.Unlock()
	want, now := share(most, int64(all[0].Value.Uint64())), int64(all[1].Value.Uint64()) //nolint:gosec // bytes of memory
	if 10*max(want-now, now-want) > now {
		debug.SetGCPercent(int(want))
	}
}

// least and greatest are shares in percent.
const least, greatest = 10, 400

func share(bytes, live int64) (percent int64) {
	return min(max(100*bytes/max(live, 1), least), greatest)
}
