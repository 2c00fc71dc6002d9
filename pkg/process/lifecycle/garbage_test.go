package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	for _, tc := range []struct{ bytes, live, want int64 }{
		{64, 64, 100}, {64, 128, 50}, {64, 1, 400}, {64, 0, 400}, {64, 1 << 20, 10},
	} {
		if got := share(tc.bytes<<20, tc.live<<20); got != tc.want {
			t.Errorf("%d beside %d: %d %%, want %d", tc.bytes, tc.live, got, tc.want)
		}
	}
}

// What comes to live changes the share.
func TestBound(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Setenv("GOGC", "")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	percent := func() uint64 {
		all := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(all)
		return all[0].Value.Uint64()
	}
	runtime.GC()
	BoundGarbage(8 << 20)
	before := percent()
	lives := make([]byte, 32<<20)
	for before == percent() {
		runtime.GC()
		time.Sleep(time.Millisecond) // it is told behind the collection
	}
	if now := percent(); now >= before || now < least {
		t.Errorf("%d %%, before %d", now, before)
	}
	runtime.KeepAlive(lives)
}
