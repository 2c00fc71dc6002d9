package bench

import (
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// Only tokens count that come while all requests decode.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		play  func(w *window)
		count int64
		turn  turn // of eight tokens in ten seconds
	}{
		{"all at once", func(w *window) {
			w.token(true)
			w.token(true)
			w.token(false)
			w.token(false)
			w.ended()
			w.token(false)
		}, 2, turn{whole: 0.8, together: 0.25}},
		{"before the second begins", func(w *window) { w.token(true); w.token(false); w.token(true); w.token(false); w.ended() }, 1, turn{rate: 0.8, whole: 0.8, together: 0.125}},
		{"one ends before the other begins", func(w *window) { w.token(true); w.token(false); w.ended(); w.token(true) }, 2, turn{rate: 0.8, whole: 0.8}},
	} {
		w := &window{need: 2}
		tt.play(w)
		got, together := turnOf(w, 8, 10), tt.turn.rate == 0
		if together { // its rate is of the moments between two calls
			tt.turn.rate = w.rate()
		}
		if w.counted != tt.count || got != tt.turn || together && got.rate <= 0.8 {
			t.Errorf("%s: %d tokens, %+v", tt.name, w.counted, got)
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
