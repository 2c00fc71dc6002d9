package directives

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// toldOf is a step of 32 rows at a threshold, of which gates tell that it accesses 8 to 32 experts.
func toldOf(millionths uint32, seconds float64) *pb.StepCurve {
	c := &pb.StepCurve{Rows: 32, Seconds: float32(seconds), Millionths: millionths}
	for i := range Points {
		c.Accesses = append(c.Accesses, uint32(8+24*i/(Points-1)))
	}
	return c
}

// told is load with gates that tell what steps access, and so many rows that are to come.
func (w *world) told(for_ time.Duration, coming int, takes func(threshold float64) float64) {
	begun, told, asked := time.Now(), time.Now(), time.Time{}
	for time.Since(begun) < for_ {
		_, _, decode := w.obeyed.Now()
		seconds := takes(float64(decode) / brownout.One)
		took := time.Duration(seconds * float64(time.Second))
		time.Sleep(took)
		w.meter.Step(false, took)
		if time.Since(asked) >= CurveEvery {
			w.meter.Curve(toldOf(decode, seconds))
			asked = time.Now()
		}
		w.meter.Wait(0, true, coming)
		if time.Since(told) >= MeterEvery {
			w.tell(w.meter.Take())
			told = time.Now()
		}
	}
	w.meter.Wait(0, false, 0)
	if l := w.meter.Take(); l != nil {
		w.tell(l)
	}
}

func foresees() Settings {
	s := testSettings()
	s.Predictive = true
	return s
}

// Under a constant load that is too much, the threshold is where steps suffice within three seconds,
// stays there, and is 1 half a minute after the load.
func TestForesees(t *testing.T) {
	takes := func(threshold float64) float64 { return 0.05 + 0.13*(8+24*threshold)/32 }
	inWorld(t, foresees(), func(t *testing.T, w *world) {
		w.told(3*time.Second, 0, takes)
		settled := w.threshold()
		if took := takes(settled); took > 0.15 || settled > 0.7 || settled < 0.5 {
			t.Errorf("after three seconds the threshold is %v, and a step takes %v s", settled, took)
		}
		w.told(10*time.Minute, 0, takes)
		if got := w.threshold(); got < settled-0.1 || got > settled || w.reversals() > 0 {
			t.Errorf("settled at %v, then %v, with %d reversals", settled, got, w.reversals())
		}
		time.Sleep(30 * time.Second)
		if got := w.threshold(); got != 1 {
			t.Errorf("half a minute after the load it is %v", got)
		}
		if why := w.shelf.directive().Reason; !strings.Contains(why, "decode nothing to do: predicted") {
			t.Errorf("the reason is %q", why)
		}
	})
}

// Requests that wait make the threshold fall before any step has been too long.
func TestForeseesWhatWaits(t *testing.T) {
	takes := func(threshold float64) float64 { return 0.1 + 0.035*(8+24*threshold)/32 }
	inWorld(t, foresees(), func(t *testing.T, w *world) {
		w.told(10*time.Second, 0, takes)
		if got := w.threshold(); got != 1 {
			t.Errorf("%v while all steps are short enough", got)
		}
		w.told(2*time.Second, 32, takes)
		if got := w.threshold(); got == 1 {
			t.Error("as many requests again wait, and the threshold is 1")
		}
	})
}

// Where accesses do not say what steps take, the threshold goes back and forth once a minute at most.
func TestForeseesSteadily(t *testing.T) {
	steep := func(threshold float64) float64 {
		if threshold > 0.6 {
			return 0.17
		}
		return 0.1
	}
	inWorld(t, foresees(), func(t *testing.T, w *world) {
		w.told(10*time.Minute, 0, steep)
		if n := w.reversals(); n > 10 {
			t.Errorf("%d reversals in ten minutes", n)
		}
	})
}

// While gates tell nothing, as those of an earlier release, algorithm 2 decides; when they do, it does
// not.
func TestBlind(t *testing.T) {
	takes := func(threshold float64) float64 { return 0.05 + 0.13*threshold }
	inWorld(t, foresees(), func(t *testing.T, w *world) {
		w.load(20*time.Second, takes)
		if got := w.threshold(); takes(got) > 0.15 || got == 1 || !strings.Contains(w.shelf.directive().Reason, "above the SLO") {
			t.Errorf("blind: %v, because %q", got, w.shelf.directive().Reason)
		}
		w.told(30*time.Second, 0, func(float64) float64 { return 0.05 })
		if got := w.threshold(); got != 1 || !strings.Contains(w.shelf.directive().Reason, "predicted") {
			t.Errorf("seeing: %v, because %q", got, w.shelf.directive().Reason)
		}
	})
}

// Curves that cannot be move nothing, and are counted.
func TestDisbelievesCurves(t *testing.T) {
	inWorld(t, foresees(), func(t *testing.T, w *world) {
		l := latencies(1)
		for _, spoil := range []func(c *pb.StepCurve){
			func(c *pb.StepCurve) { c.Rows = 0 }, func(c *pb.StepCurve) { c.Rows = mostRows + 1 }, func(c *pb.StepCurve) { c.Millionths = brownout.One + 1 },
			func(c *pb.StepCurve) { c.Accesses = c.Accesses[1:] }, func(c *pb.StepCurve) { c.Accesses[3] = 65 }, func(c *pb.StepCurve) { clear(c.Accesses) },
			func(c *pb.StepCurve) { c.Seconds = float32(math.NaN()) }, func(c *pb.StepCurve) { c.Seconds = 1e9 },
		} {
			c := proto.CloneOf(toldOf(brownout.One, 9))
			spoil(c)
			l.Curves = append(l.Curves, c)
		}
		w.tell(l)
		long := latencies(2)
		long.ComingRows = mostRows + 1
		w.tell(long)
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := w.threshold(); got != 1 || w.ignored != 9 {
			t.Errorf("the threshold is %v, and %d were ignored, want 9", got, w.ignored)
		}
	})
}
