package expertmap

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const (
	layers, experts, topK = 2, 8, 2
	ahead                 = 1
)

// served is a learner of rows whose choices a gate foretells with some probability, and what it
// says of the last rows: how far its chances are from any expert's, and from what was used.
func served(foretold float64) (l *Learner, spread, off float64) {
	r := rand.New(rand.NewPCG(1, 2))
	l = NewLearner(layers, experts, topK)
	said, used, n := 0.0, 0.0, 0.0
	for row := range 2000 {
		first := uint16(r.IntN(experts))
		chosen := []uint16{first, (first + 1) % experts}
		seen := make([]float32, experts)
		at := chosen
		if r.Float64() > foretold {
			other := uint16(r.IntN(experts))
			at = []uint16{other, (other + 1) % experts}
		}
		for _, e := range at {
			seen[e] = 0.5
		}
		g := l.Guess(Head{Ahead: ahead}, 1)
		g.Know(Gate, seen)
		for e, p := range g.Said() {
			if row < 1000 {
				continue
			}
			n++
			said += p
			spread += math.Abs(p - 0.25)
			if e == int(chosen[0]) || e == int(chosen[1]) {
				used++
			}
		}
		l.Teach(g, chosen)
		for _, e := range chosen {
			l.Count(1, int(e), 1)
		}
		l.Rows(1)
	}
	return l, spread / n, math.Abs(said-used) / n
}

// Chances are as often right as they say, and far from any expert's only where something foretells
// choices.
func TestCalibrated(t *testing.T) {
	for name, tc := range map[string]struct{ foretold, least, most float64 }{"surely": {1, 0.3, 1}, "often": {0.7, 0.15, 0.35}, "never": {0, 0, 0.06}} {
		_, spread, off := served(tc.foretold)
		if spread < tc.least || spread > tc.most || off > 0.02 {
			t.Errorf("%s: chances are %.3f from any expert's, and %.3f off", name, spread, off)
		}
	}
}

// Of rows that go on using the same experts for a while the last ones tell the next, where rates of all rows tell
// nothing; when others come, they are told soon.
func TestLately(t *testing.T) {
	l := NewLearner(layers, experts, topK)
	said, of := 0.0, 0.0
	for row := range 3000 {
		first := uint16(row / 50 * 2 % experts)
		g := l.Guess(Head{}, 1)
		p := g.Said()
		if row > 1000 && row%50 > 20 {
			said, of = said+p[first], of+1
		}
		chosen := []uint16{first, first + 1}
		l.Teach(g, chosen)
		for _, e := range chosen {
			l.Count(1, int(e), 1)
		}
		l.Rows(1)
	}
	if said/of < 0.75 {
		t.Errorf("experts that the last rows have used are told with %.2f", said/of)
	}
}

// The same calls give the same bits, and before anything is learned experts have their rates.
func TestSame(t *testing.T) {
	one, _, _ := served(0.5)
	other, _, _ := served(0.5)
	if !reflect.DeepEqual(one, other) {
		t.Error("the same rows have taught something else")
	}
	for _, p := range NewLearner(layers, experts, topK).Guess(Head{Blind: true, Ahead: 3}, 0).Said() {
		if math.Abs(p-0.2) > 1e-9 { // odds of a quarter
			t.Errorf("of an expert %v is said before anything is known", p)
		}
	}
	fresh := NewLearner(layers, experts, topK)
	fresh.Take(one)
	if !reflect.DeepEqual(fresh, one) {
		t.Error("what was learned is not taken over")
	}
}

// Heads are apart, but before the first layer the distance tells nothing.
func TestHeads(t *testing.T) {
	l := NewLearner(layers, experts, topK)
	g := l.Guess(Head{Ahead: 1}, 0)
	g.Past([]float32{1, 0, 0, 0, 0, 0, 0, 0}, []uint16{0})
	g.Said()
	l.Teach(g, []uint16{0})
	for h, same := range map[Head]bool{{Ahead: 1}: true, {Ahead: 2}: false, {Ahead: 1, Blind: true}: false, {Ahead: 1, Prefill: true}: false, {}: false} {
		if got := l.head(h) == g.of; got != same {
			t.Errorf("%+v has the same weights: %v", h, got)
		}
	}
	if l.head(Head{Ahead: 1, Blind: true}) != l.head(Head{Ahead: 4, Blind: true}) {
		t.Error("distances are apart before the first layer")
	}
}

// Tokens are told by what their rows asked for, and unknown ones by all rows.
func TestTokens(t *testing.T) {
	s := NewTokens(4)
	row := make([]float32, 2)
	s.Fill(7, 2, row)
	if row[0] != 0 || row[1] != 0 {
		t.Errorf("nothing is known, and %v is told", row)
	}
	s.Add(7, []float32{0, 1, 1, 0})
	s.Add(8, []float32{1, 0, 0, 1})
	s.Fill(7, 2, row)
	if want := float32(1+0.5*0.5) / 1.5; row[0] != want {
		t.Errorf("%v, want %v", row[0], want)
	}
	s.Fill(9, 2, row)
	if row[0] != 0.5 {
		t.Errorf("%v of a token that is not known", row[0])
	}
	for id := range uint32(mostTokens + 10) {
		s.Add(id, []float32{0, 0, 0, 0})
	}
	if len(s.tokens) != mostTokens {
		t.Errorf("%d tokens are remembered", len(s.tokens))
	}
}
