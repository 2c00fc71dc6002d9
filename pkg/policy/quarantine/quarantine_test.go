package quarantine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/transcript"
)

// TestTranscripts replays what hosts do, each 0.4 s.
//
//	judge
//	work SECONDS HOST=MESSAGES/ROWS/MILLISECONDS…   each 0.4 s: messages, their rows together, and the time they take together
//	                                                a ! behind them: its device throttles; a +: it loads weights, too
//
// A host that is avoided does nothing; one that is tried does an eighth of that.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(testing.TB) transcript.Machine {
		p := &play{}
		return p.event
	})
}

type play struct {
	judge  *Judge
	now    float64
	totals map[string]Total
}

func (p *play) event(t testing.TB, e *transcript.Event) []string {
	switch e.Name {
	case "judge":
		*p = play{judge: New(Defaults()), totals: map[string]Total{}}
		return nil
	case "gone":
		delete(p.totals, e.Arg(t, 0))
		return nil
	case "work":
		return p.work(t, e)
	}
	e.Fatalf(t, "there is no such event")
	return nil
}

func (p *play) work(t testing.TB, e *transcript.Event) (lines []string) {
	seconds, err := strconv.ParseFloat(e.Arg(t, 0), 64)
	if err != nil {
		e.Fatalf(t, "%v", err)
	}
	each := map[string]Total{}
	for _, id := range []string{"a", "b", "c", "d"} {
		if e.Has(id) {
			each[id] = parse(t, e, e.Text(id, ""))
		}
	}
	for end := p.now + seconds; p.now < end-0.2; {
		p.now += 0.4
		for id, w := range each {
			p.totals[id] = p.totals[id].plus(w, []float64{1, 0, 1.0 / 8}[p.judge.Of(id)])
		}
		for _, c := range p.judge.Observe(p.now, p.totals) {
			if c.Throttle {
				lines = append(lines, fmt.Sprintf("%5.1f s %s %s, by its own word", p.now, c.Host, c.State))
				continue
			}
			lines = append(lines, fmt.Sprintf("%5.1f s %s %s, %.1f times as slow, for %.0f s", p.now, c.Host, c.State, c.Ratio, c.For))
		}
	}
	return lines
}

func (t Total) plus(w Total, share float64) Total {
	return Total{
		Device: w.Device, Messages: t.Messages + share*w.Messages, Rows: t.Rows + share*w.Rows, Seconds: t.Seconds + share*w.Seconds,
		Throttled: w.Throttled, Loads: t.Loads + w.Loads,
	}
}

func parse(t testing.TB, e *transcript.Event, s string) Total {
	var n [3]float64
	s, throttled := strings.CutSuffix(s, "!")
	s, loads := strings.CutSuffix(s, "+")
	for i, word := range strings.SplitN(s, "/", 3) {
		var err error
		if n[i], err = strconv.ParseFloat(word, 64); err != nil {
			e.Fatalf(t, "%v", err)
		}
	}
	w := Total{Messages: n[0], Rows: n[1], Seconds: n[2] / 1e3, Throttled: throttled}
	if loads {
		w.Loads = 1
	}
	return w
}

// Hosts that are equally fast are never blamed, however differently rows are dealt
// out: a message takes a + b·rows everywhere, with at most so much noise.
func TestEquallyFast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, 1e-2).Draw(t, "a"), rapid.Float64Range(1e-6, 1e-2).Draw(t, "b")
		j, totals := New(Defaults()), map[string]Total{}
		for step := range 20 {
			for i := range 4 {
				id := strconv.Itoa(i)
				messages := rapid.Float64Range(0, 200).Draw(t, "messages")
				rows := messages * rapid.Float64Range(1, 64).Draw(t, "rows")
				noise := rapid.Float64Range(1, 2).Draw(t, "noise")
				totals[id] = totals[id].plus(Total{Messages: messages, Rows: rows, Seconds: noise * (a*messages + b*rows)}, 1)
			}
			if got := j.Observe(0.4*float64(step), totals); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// One that is ten times as slow is avoided, whatever its share, and never all are.
func TestTenTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.IntRange(2, 6).Draw(t, "hosts")
		j, totals := New(Defaults()), map[string]Total{}
		rows := rapid.Float64Range(1, 32).Draw(t, "rows")
		for step := range 10 {
			for i := range hosts {
				took := 1e-3 * rapid.Float64Range(1, 1.5).Draw(t, "took")
				if i == 0 {
					took *= 10
				}
				messages := rapid.Float64Range(5, 100).Draw(t, "messages")
				totals[strconv.Itoa(i)] = totals[strconv.Itoa(i)].plus(Total{Messages: messages, Rows: messages * rows, Seconds: messages * took}, 1)
			}
			for _, c := range j.Observe(0.4*float64(step), totals) {
				if c.Host != "0" || c.State != Avoided {
					t.Fatalf("%+v", c)
				}
			}
		}
		if j.Of("0") != Avoided {
			t.Fatal("not avoided")
		}
	})
}

// Whatever hosts say, one that is trusted is left, and pauses are bounded.
func TestSomebodyIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, totals := New(Defaults()), map[string]Total{}
		anything := rapid.Float64Range(-10, 1e6)
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			for i := range rapid.IntRange(1, 5).Draw(t, "hosts") {
				id := strconv.Itoa(i)
				totals[id] = totals[id].plus(Total{Messages: anything.Draw(t, "messages"), Rows: anything.Draw(t, "rows"), Seconds: anything.Draw(t, "seconds")}, 1)
			}
			for _, c := range j.Observe(float64(step), totals) {
				if c.For < 0 || c.For > Defaults().Longest {
					t.Fatalf("%+v", c)
				}
			}
			if trusted := slices.ContainsFunc(slices.Collect(maps.Keys(totals)), func(id string) bool { return j.Of(id) == Trusted }); !trusted {
				t.Fatal("nobody is left")
			}
		}
	})
}

// A device that is slow by nature is no reason to pass its hosts by; among its
// like it is.
func TestDevices(t *testing.T) {
	for _, tc := range []struct {
		name    string
		device  string // of the slow host; the others are "fast"
		changed bool
	}{
		{"another device", "slow", false},
		{"the same device", "fast", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j, changed := New(Defaults()), false
			for i := range 10 {
				n := float64(i)
				changed = len(j.Observe(0.4*n, map[string]Total{
					"a": {Device: tc.device, Messages: 40 * n, Rows: 80 * n, Seconds: 0.3 * n},
					"b": {Device: "fast", Messages: 40 * n, Rows: 80 * n, Seconds: 0.01 * n},
					"c": {Device: "fast", Messages: 40 * n, Rows: 80 * n, Seconds: 0.01 * n},
				})) > 0 || changed
			}
			if changed != tc.changed {
				t.Errorf("changed %v, want %v", changed, tc.changed)
			}
		})
	}
}
