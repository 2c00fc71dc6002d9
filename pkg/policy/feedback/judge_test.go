package feedback

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/transcript"
)

// machine makes times as a machine would: a layer takes what its messages and rows take.
type machine struct {
	j     *Judge
	now   float64
	rng   *rand.Rand
	rows  float64
	load  float64         // of other things: all layers take so many times as long
	slow  map[int]float64 // layers take so many times as long
	noise float64
	said  []string
}

func newMachine(layers int, horizon, noise float64) *machine {
	return &machine{
		j: New(Settings{Horizon: horizon, Layers: layers}), rng: rand.New(rand.NewPCG(1, 2)), rows: 4, load: 1, noise: noise, slow: map[int]float64{},
	}
}

// pass lets layers take their times, and judges.
func (m *machine) pass(seconds float64) (all []Outcome) {
	for end := m.now + seconds; m.now < end-1e-9; {
		m.now += 0.25
		for l := range m.j.s.Layers {
			steps := 5.0
			rows := max(1, math.Round(m.rows*math.Exp(0.2*m.rng.NormFloat64())))
			took := (1e-3 + 50e-6*rows) * m.load * cmp.Or(m.slow[l], 1) * math.Exp(m.noise*m.rng.NormFloat64())
			m.j.Observe(m.now, l, Times{Class: int(2 * math.Log2(rows)), Steps: steps, Rows: steps * rows, TotalSeconds: steps * took})
		}
		all = append(all, m.j.Judge(m.now)...)
	}
	return all
}

func (m *machine) try(layer int, expected, slow float64) {
	m.j.Begin(m.now, layer, expected, false)
	m.j.Used(m.now, layer)
	m.slow[layer] = slow
}

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		var m *machine
		return func(t testing.TB, e *transcript.Event) []string {
			if e.Name == "machine" {
				m = newMachine(e.Int(t, "layers", 8), e.Duration(t, "horizon", 10*time.Second).Seconds(), e.Float(t, "noise", 0.1))
				return nil
			}
			m.said = nil
			m.do(t, e)
			return m.said
		}
	})
}

func (m *machine) do(t testing.TB, e *transcript.Event) {
	t.Helper()
	layer := e.Int(t, "layer", 0)
	switch e.Name {
	case "rows":
		m.rows = e.Float(t, "of", 4)
	case "busy":
		m.load = e.Float(t, "times", 1)
	case "is":
		m.slow[layer] = e.Float(t, "times", 1)
	case "try":
		m.j.Begin(m.now, layer, e.Float(t, "expected", 0.2), slices.Contains(e.Args, "trusted"))
		if e.Text("used", "yes") == "yes" {
			m.j.Used(m.now, layer)
			m.slow[layer] = e.Float(t, "times", 1)
		}
	case "changed":
		m.j.Changed(m.now, layer)
	case "drop":
		m.j.Drop(m.now, layer)
	case "quiet":
		m.now += e.Duration(t, "for", time.Second).Seconds()
		m.tell(m.j.Judge(m.now))
	case "pass":
		m.tell(m.pass(e.Duration(t, "for", time.Second).Seconds()))
	case "may":
		m.said = append(m.said, fmt.Sprintf("layer %d: %v, %d at once", layer, m.j.May(m.now, layer, slices.Contains(e.Args, "trusted")), m.j.width))
	default:
		e.Fatalf(t, "there is no such event")
	}
}

func (m *machine) tell(all []Outcome) {
	for _, o := range all {
		m.said = append(m.said, fmt.Sprintf("%.2f: layer %d: it %v: expected %.0f %%, came %.0f ± %.0f %%, %.0f samples; left alone for %.0f s",
			m.now, o.Layer, o.Verdict, 100*o.Expected, 100*o.Came, 100*o.Error, o.Samples, max(0, o.Until-m.now)))
		if o.Verdict != Helped {
			m.slow[o.Layer] = 1
		}
	}
}

// A change of load, of rows or of the whole machine is not taken for what a change did: an effect
// is found within its horizon whatever happens beside it, and none is not taken for a large one.
func TestFindsEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(8, 10, rapid.Float64Range(0, 0.15).Draw(t, "noise"))
		m.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		m.rows = rapid.Float64Range(2, 32).Draw(t, "rows")
		m.pass(15)
		if !m.j.May(m.now, 3, false) {
			t.Fatal("nothing may be changed after 15 s")
		}
		m.load = rapid.Float64Range(0.7, 2).Draw(t, "busy")
		m.rows *= rapid.Float64Range(0.5, 2).Draw(t, "more rows")
		slow := rapid.SampledFrom([]float64{0.5, 1, 1.5}).Draw(t, "effect")
		m.try(3, 0.3, slow)
		all := m.pass(11)
		if len(all) != 1 || all[0].Layer != 3 || all[0].Expected != 0.3 {
			t.Fatalf("%+v", all)
		}
		switch v := all[0].Verdict; {
		case slow < 1 && v != Helped, slow > 1 && v == Helped:
			t.Fatalf("times %v: %+v", slow, all[0])
		case slow == 1 && math.Abs(all[0].Came) > max(0.45, 6*all[0].Error): // few samples at like load have a large error
			t.Fatalf("came %v ± %v", all[0].Came, all[0].Error)
		}
		if all[0].Verdict != Helped && m.j.May(m.now, 3, false) {
			t.Fatal("the layer may be changed again at once")
		}
	})
}

// Where no change ever helps there are ever fewer trials.
func TestEndsAtNone(t *testing.T) {
	m := newMachine(8, 10, 0.1)
	trials, when := 0, []float64{}
	for m.now < 1200 {
		for l := range 8 {
			if m.j.May(m.now, l, false) {
				m.try(l, 0.3, 1.3)
				trials++
				when = append(when, m.now)
			}
		}
		for _, o := range m.pass(0.25) {
			m.slow[o.Layer] = 1
			if o.Verdict == Helped {
				t.Fatalf("%+v", o)
			}
		}
	}
	if trials > 8 || when[len(when)-1]-when[len(when)-2] < 200 {
		t.Errorf("%d trials at %v", trials, when)
	}
}

// Where all help, all layers are changed within seconds.
func TestSpreads(t *testing.T) {
	m := newMachine(8, 10, 0.1)
	m.pass(2)
	left := 8
	began := m.now
	for left > 0 && m.now-began < 30 {
		for l := range 8 {
			if m.slow[l] == 0 && m.j.May(m.now, l, false) {
				m.try(l, 0.3, 0.6)
			}
		}
		left -= len(m.pass(0.25))
	}
	if m.now-began > 12 {
		t.Errorf("%v s, %d left", m.now-began, left)
	}
}

func TestRefuses(t *testing.T) {
	m := New(Settings{Horizon: 10, Layers: 2})
	for _, bad := range []Times{{}, {Steps: 1, Rows: 0.5, TotalSeconds: 1}, {Steps: 1, Rows: 1, TotalSeconds: math.NaN()}, {Steps: 1, Rows: 1, TotalSeconds: math.Inf(1)}, {Steps: -1, Rows: 1, TotalSeconds: 1}} {
		if m.Observe(0, 1, bad); m.Hears() {
			t.Fatalf("%+v counts", bad)
		}
	}
}
