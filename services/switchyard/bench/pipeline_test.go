package bench

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only tokens count that come while all requests decode.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		play  func(w *window)
		count int64
		rated bool
	}{
		{"all at once", func(w *window) {
			w.token(true)
			w.token(true)
			w.token(false)
			w.token(false)
			w.ended()
			w.token(false)
		}, 2, true},
		{"before the second begins", func(w *window) { w.token(true); w.token(false); w.token(true); w.token(false); w.ended() }, 1, true},
		{"one ends before the other begins", func(w *window) { w.token(true); w.token(false); w.ended(); w.token(true) }, 2, false},
	} {
		w := &window{need: 2}
		tt.play(w)
		if w.counted != tt.count || (w.rate() > 0) != tt.rated {
			t.Errorf("%s: %d tokens, %v a second", tt.name, w.counted, w.rate())
		}
	}
}

func TestMedian(t *testing.T) {
	for want, x := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := median(x); got != want {
			t.Errorf("median of %v is %v, want %v", x, got, want)
		}
	}
}
