package gpus

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const soon = time.Millisecond

// logged is a log, and what it says.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var b bytes.Buffer
	w := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	})
	return slog.New(slog.NewTextHandler(w, nil)), func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func nobody(error) {}

// It reads while somebody follows, however many, and begins anew; what the GPU does
// not say is not there.
func TestFollow(t *testing.T) {
	gpu, log := fake.NewFacts(), slog.New(slog.DiscardHandler)
	gpu.Set(cuda.Power, 350)
	gpu.Without(cuda.Busy, cuda.Slowed)
	w := every(gpu, soon)
	if s := w.State(); s.Values != nil || gpu.Reads() > 0 {
		t.Fatalf("%+v before anybody follows", s)
	}
	for range 2 {
		first, second := w.Follow(t.Context(), log, nobody), w.Follow(t.Context(), log, nobody)
		testkit.Eventually(t, "figures", func() bool { return w.State().Values[cuda.Power] == 350 })
		if _, says := w.State().Values[cuda.Busy]; says {
			t.Error("a figure that the GPU does not say is there")
		}
		first()
		n := gpu.Reads()
		testkit.Eventually(t, "more reads", func() bool { return gpu.Reads() > n+1 })
		second()
		second()
		w.mu.Lock()
		if w.stop != nil {
			t.Error("it reads for nobody")
		}
		w.mu.Unlock()
	}
}

// A GPU that is gone is told once to each replica, whenever it comes, and not read again.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(*fake.Facts)
		says string
	}{
		{"the library says so", (*fake.Facts).Lose, "off its bus"},
		{"the driver noted it", func(f *fake.Facts) { f.Note(13); f.Note(79) }, "Xid 79"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := fake.NewFacts()
			w := every(gpu, soon)
			log, said := logged()
			lost := make(chan error, 4)
			tell := func(err error) { lost <- err }
			defer w.Follow(t.Context(), log, tell)()
			defer w.Follow(t.Context(), log, tell)()
			testkit.Eventually(t, "figures", func() bool { return w.State().Values != nil })
			tt.lose(gpu)
			for range 2 {
				if err := <-lost; !errors.Is(err, cuda.ErrLost) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v", err)
				}
			}
			n := gpu.Reads()
			w.Follow(t.Context(), log, tell)()
			if err := <-lost; !errors.Is(err, cuda.ErrLost) {
				t.Errorf("who comes later hears %v", err)
			}
			if s := w.State(); s.Values != nil || gpu.Reads() != n || len(lost) > 0 {
				t.Errorf("%v, %d reads after %d, %d told again", s.Values, gpu.Reads(), n, len(lost))
			}
			if xids := w.State().Noted; strings.Count(said(), "noted an error") != len(xids) || len(xids) > 0 && xids[79] != 1 {
				t.Errorf("%v noted; the log says\n%s", xids, said())
			}
		})
	}
}

// Reading that fails is said once, and what was known is told for a while.
func TestFails(t *testing.T) {
	gpu := fake.NewFacts()
	w := every(gpu, soon)
	log, said := logged()
	defer w.Follow(t.Context(), log, nobody)()
	testkit.Eventually(t, "figures", func() bool { return w.State().Values != nil })
	gpu.Fail(errors.New("nvmlDeviceGetTemperature answered 999"))
	n := gpu.Reads()
	testkit.Eventually(t, "more reads", func() bool { return gpu.Reads() > n+3 })
	if strings.Count(said(), "cannot be read") != 1 || w.State().Values == nil {
		t.Errorf("the log says\n%s", said())
	}
	w.mu.Lock()
	w.read = w.read.Add(-2 * staleAfter)
	w.mu.Unlock()
	if s := w.State(); s.Values != nil {
		t.Errorf("after a long time it tells %v", s.Values)
	}
	gpu.Fail(nil)
	testkit.Eventually(t, "figures again", func() bool { return w.State().Values != nil })
}

// A GPU that is hot for long is to be avoided until it has cooled. The power limit, at
// which a busy one usually is, is no reason, nor is an idle one's low clock.
func TestThrottles(t *testing.T) {
	for _, tt := range []struct {
		reasons cuda.Reasons
		avoid   bool
	}{
		{cuda.HardwareThermal | cuda.HardwareSlowdown, true},
		{cuda.SoftwareThermal, true},
		{cuda.PowerBrake, true},
		{0x01, false}, // idle
		{0x04, false}, // its power limit
	} {
		t.Run(tt.reasons.String(), func(t *testing.T) {
			w := NewWatch(fake.NewFacts())
			log, said := logged()
			now := time.Now().Add(-time.Minute)
			see := func(seconds int, r cuda.Reasons) bool {
				for range seconds {
					now = now.Add(time.Second)
					w.take(log, now, cuda.Facts{Values: map[cuda.FactName]float64{cuda.Slowed: float64(r)}}, nil)
				}
				return w.throttle.Avoid
			}
			if see(5, tt.reasons) || see(15, tt.reasons) != tt.avoid || see(5, 0) != tt.avoid || see(20, 0) {
				t.Errorf("avoided: %+v", w.throttle)
			}
			if says := strings.Contains(said(), "by=\""+tt.reasons.String()) || strings.Contains(said(), "by="+tt.reasons.String()); says != tt.avoid {
				t.Errorf("the log says\n%s", said())
			}
		})
	}
}
