package routing

import (
	"math"
	"strings"
	"testing"
)

// texts are generated ones of five domains.
func texts(t testing.TB, p Params, n, rows int) (Shape, []Sample) {
	s := Shape{Layers: 4, Experts: 16, TopK: 2}
	like := make([]Sample, n)
	for i := range like {
		like[i] = Sample{Domain: i % 5, Choices: make([]uint16, rows*s.Layers*s.TopK)}
	}
	return s, generator(t, s, p, 5, 11).samples(like)
}

// What a generator has made is fitted again to the same figures.
func TestFit(t *testing.T) {
	s, samples := texts(t, one(Layer{Common: 0.3, Domain: 0.7, Topic: 0.2, Neighbour: 0.1, Layer: 0.5}), 60, 150)
	f, err := NewFit(s, samples)
	if err != nil {
		t.Fatal(err)
	}
	if f.Error() > 0.1 || !strings.Contains(f.String(), "mean error") {
		t.Errorf("%v", f)
	}
	if l := f.Params.Layers[1]; math.Abs(l.Neighbour-0.1) > 0.05 || math.Abs(l.Layer-0.5) > 0.15 {
		t.Errorf("%+v", l)
	}
}

// Without any skew there is none to be fitted.
func TestFitFlat(t *testing.T) {
	s, samples := texts(t, one(Layer{}), 60, 150)
	m := Mean(Measure(s, samples))
	for _, v := range []float64{m.Common, m.Domain, m.Text, m.Neighbour, m.Layer} {
		if math.Abs(v) > 0.06 { // a guess from few pairs is too good by chance
			t.Errorf("%+v", m)
		}
	}
}

func TestFitRefused(t *testing.T) {
	s := Shape{Layers: 1, Experts: 4, TopK: 2}
	for name, tc := range map[string]struct {
		samples []Sample
		want    string
	}{
		"none":    {nil, "no texts"},
		"expert":  {[]Sample{{Choices: []uint16{0, 4}}}, "expert 4 of 4"},
		"half":    {[]Sample{{Choices: []uint16{0}}}, "rows have 2"},
		"domain":  {[]Sample{{Domain: -1}}, "of domain -1"},
		"no rows": {[]Sample{{}}, ""},
	} {
		_, err := NewFit(s, tc.samples)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestDemo(t *testing.T) {
	p := Demo().Stronger(1.5)
	if err := p.check(); err != nil || math.Abs(p.Layers[5].Domain-1.905) > 1e-9 {
		t.Errorf("%v, %v", p, err)
	}
}
