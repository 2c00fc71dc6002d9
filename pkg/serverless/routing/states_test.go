package routing

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// written are texts of some domains.
func written(t testing.TB, s Shape, p StateParams, n, rows int) (*Gates, []*Rows) {
	t.Helper()
	g, err := NewStates(s, p, 5)
	if err != nil {
		t.Fatal(err)
	}
	var texts []*Rows
	for id := range n {
		texts = append(texts, g.Rows(Text{ID: uint64(id), Domain: id % 4, Rows: rows}, rows/2))
	}
	return &g.Gates, texts
}

// Each row's probabilities sum to 1 in each layer, its choices are the most probable experts,
// and the same seed gives the same rows.
func TestStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{Layers: rapid.IntRange(1, 4).Draw(t, "layers"), Experts: rapid.IntRange(1, 12).Draw(t, "experts")}
		s.TopK = rapid.IntRange(1, s.Experts).Draw(t, "top-k")
		part := rapid.Float64Range(0, 0.25)
		p := StateParams{
			Domain: part.Draw(t, "domain"), Topic: part.Draw(t, "topic"), Token: part.Draw(t, "token"), Context: part.Draw(t, "context"),
			Near: rapid.Float64Range(0, 1).Draw(t, "near"), Layer: rapid.Float64Range(0, 1).Draw(t, "layer"), Sharp: rapid.Float64Range(0, 4).Draw(t, "sharp"),
		}
		text := Text{ID: rapid.Uint64().Draw(t, "id"), Domain: rapid.IntRange(0, 9).Draw(t, "of"), Rows: rapid.IntRange(1, 6).Draw(t, "rows")}
		seed := rapid.Uint64().Draw(t, "seed")
		g, err := NewStates(s, p, seed)
		if err != nil {
			t.Fatal(err)
		}
		r := g.Rows(text, 3)
		for row := range r.N {
			for l := range s.Layers {
				sum, least := 0.0, float32(2)
				for _, v := range r.Of(row, l) {
					sum += float64(v)
				}
				chosen := map[uint16]bool{}
				for _, e := range r.Chosen(row, l) {
					chosen[e], least = true, min(least, r.Of(row, l)[e])
				}
				for e, v := range r.Of(row, l) {
					if !chosen[uint16(e)] && v > least {
						t.Fatalf("expert %d with %v is not among %v", e, v, r.Chosen(row, l))
					}
				}
				if math.Abs(sum-1) > 1e-4 || len(chosen) != s.TopK {
					t.Fatalf("row %d of layer %d sums to %v and chooses %v", row, l, sum, r.Chosen(row, l))
				}
			}
		}
		again, _ := NewStates(s, p, seed)
		if other := again.Rows(text, 3); !reflect.DeepEqual(other.Probabilities, r.Probabilities) {
			t.Fatal("the same seed gives other rows")
		}
	})
}

// What is measured of generated rows are the parameters that they were generated with.
func TestFitStates(t *testing.T) {
	want := StateParams{Domain: 0.15, Topic: 0.1, Token: 0.25, Context: 0.15, Near: neighbours, Layer: 0.8, Sharp: 1.5, Common: 0.4}
	g, texts := written(t, Shape{Layers: 6, Experts: 16, TopK: 2}, want, 48, 80)
	f, err := Correlate(g, texts)
	if err != nil {
		t.Fatal(err)
	}
	got := FitStates(f)
	for name, pair := range map[string][2]float64{
		"domain and topic": {got.Domain + got.Topic, want.Domain + want.Topic}, "token": {got.Token, want.Token},
		"context": {got.Context, want.Context}, "layer": {got.Layer, want.Layer}, "sharp": {got.Sharp, want.Sharp}, "common": {got.Common, 0.5},
	} {
		if math.Abs(pair[0]-pair[1]) > 0.12 { // what few domains have in common counts as common
			t.Errorf("%s is %.3f, want %.3f", name, pair[0], pair[1])
		}
	}
	if f.Entropy >= f.TextEntropy || f.Ahead <= f.Ahead3 {
		t.Errorf("%+v", f)
	}
}

// Of unpredictable rows nothing correlates.
func TestUnpredictable(t *testing.T) {
	g, texts := written(t, Shape{Layers: 4, Experts: 16, TopK: 2}, DemoStates().Unpredictable(), 24, 60)
	f, err := Correlate(g, texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{f.Domain, f.Text, f.Token, f.Neighbour, f.Ahead, f.Ahead3} {
		if math.Abs(v) > 0.05 {
			t.Errorf("%+v", f)
		}
	}
}

func TestStatesRefused(t *testing.T) {
	s := Shape{Layers: 1, Experts: 4, TopK: 2}
	for name, p := range map[string]StateParams{
		"shares": {Domain: 0.6, Token: 0.6}, "NaN": {Sharp: math.NaN()}, "layer": {Layer: 1.1}, "negative": {Topic: -0.1}, "near": {Near: 2}, "common": {Common: 11},
	} {
		if _, err := NewStates(s, p, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewStates(Shape{}, StateParams{}, 1); err == nil {
		t.Error("no shape: no error")
	}
	g, texts := written(t, s, StateParams{Sharp: 1}, 2, 3)
	other := *g
	other.Width++
	if _, err := Correlate(&other, texts); err == nil {
		t.Error("other gates: no error")
	}
	if err := other.Check(); err == nil || g.Check() != nil {
		t.Errorf("%v, %v", err, g.Check())
	}
	if _, err := Correlate(g, texts[:1]); err == nil {
		t.Error("one text: no error")
	}
}

// Stronger and weaker parameters are legal, and in order.
func TestStronger(t *testing.T) {
	p := DemoStates()
	for _, factor := range []float64{0, 0.4, 1, 2.5, 100} {
		q := p.Stronger(factor)
		if err := q.Check(); err != nil {
			t.Errorf("%v: %v", factor, err)
		}
		if factor > 1 && q.Layer <= p.Layer || factor < 1 && q.Token >= p.Token || factor == 1 && math.Abs(q.Token-p.Token) > 1e-12 || factor == 0 && q.Token+q.Layer != 0 {
			t.Errorf("%v: %+v", factor, q)
		}
	}
}

func BenchmarkStates(b *testing.B) {
	g, err := NewStates(Shape{Layers: 32, Experts: 8, TopK: 2}, DemoStates(), 1)
	if err != nil {
		b.Fatal(err)
	}
	rows := 0
	for b.Loop() {
		g.Rows(Text{ID: uint64(rows), Rows: 100}, 50)
		rows += 100
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(rows), "µs/row")
}
