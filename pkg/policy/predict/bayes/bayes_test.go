package bayes

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func header() Header {
	return Header{Model: "abc", Layers: []int{1, 4}, Experts: 3, TopK: 1, Vocab: 10}
}

// text is a sequence of one row, the same in both layers.
func text(token, position, key uint32, expert uint16) *Rows {
	return &Rows{
		Tokens: []uint32{token}, Positions: []uint32{position}, Keys: [][]uint32{{key}, {key}}, Experts: [][]uint16{{expert}, {expert}},
	}
}

func built(t testing.TB, times map[*Rows]int, order ...*Rows) *Table {
	t.Helper()
	b := NewBuilder(header())
	n := 0
	for _, r := range order {
		for range times[r] {
			n++
			if err := b.Add(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ; n < LeastSamples; n++ { // of a token that no test asks for
		if err := b.Add(text(9, 0, 9, uint16(n%3))); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// one has token 1 at positions 0 and 1 with keys 2 and 3: by counts alone expert 0 is first, and
// with keys as frequent as in the text expert 1 is.
func one(t testing.TB) *Table {
	a, b, c := text(1, 0, 2, 0), text(1, 0, 3, 1), text(1, 1, 2, 2)
	return built(t, map[*Rows]int{a: 6, b: 4, c: 1}, a, b, c)
}

func posterior(t *testing.T, table *Table, method string, f Frequency, of Features) []float64 {
	t.Helper()
	m, err := MethodOf(method)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(table, m, f)
	if err != nil {
		t.Fatal(err)
	}
	into := make([]float64, table.Experts)
	p.Posterior(0, of, into)
	return into
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) < 1e-12 })
}

// Equation 1, by hand.
func TestPosterior(t *testing.T) {
	table := one(t)
	f, err := NewFrequency(10, []uint32{3, 3, 3, 2, 5, 5, 5, 5, 5, 5})
	if err != nil {
		t.Fatal(err)
	}
	prior := posterior(t, table, "average", f, Features{})
	for _, tc := range []struct {
		method string
		of     Features
		f      Frequency
		want   []float64
	}{
		{"lina", Features{Token: 1}, f, []float64{6. / 11, 4. / 11, 1. / 11}},
		{"bayes", Features{Token: 1}, f, []float64{6. / 19, 12. / 19, 1. / 19}},
		{"bayes", Features{Token: 1}, nil, []float64{6. / 11, 4. / 11, 1. / 11}},
		{"bayes", Features{Token: 1}, make(Frequency, 10), []float64{6. / 11, 4. / 11, 1. / 11}}, // none of the keys is in the text
		{"bayes", Features{Token: 7}, f, prior},
		{"bayes+position", Features{Token: 1, Position: 0}, f, []float64{6. / 18, 12. / 18, 0}},
		{"bayes+position", Features{Token: 1, Position: 8}, f, prior},
		{"bayes+backoff", Features{Token: 1, Position: 8}, f, []float64{6. / 19, 12. / 19, 1. / 19}},
		{"bayes+attention", Features{Token: 1, Position: 0, Key: 2}, f, []float64{1, 0, 0}},
		{"bayes+attention", Features{Token: 1, Position: 0, Key: 8}, f, []float64{6. / 18, 12. / 18, 0}},
		{"bayes+attention", Features{Token: 7}, f, prior},
	} {
		if got := posterior(t, table, tc.method, tc.f, tc.of); !near(got, tc.want) {
			t.Errorf("%s of %+v: %v, want %v", tc.method, tc.of, got, tc.want)
		}
	}
}

func drawn(t *rapid.T) *Table {
	h := Header{Model: "m", Layers: []int{0, 2}, Experts: rapid.IntRange(1, 5).Draw(t, "experts"), Vocab: rapid.IntRange(1, 6).Draw(t, "vocabulary")}
	h.TopK = rapid.IntRange(1, min(2, h.Experts)).Draw(t, "k")
	b := NewBuilder(h)
	token := rapid.Uint32Range(0, uint32(h.Vocab-1))
	for range LeastSamples {
		r := &Rows{Tokens: []uint32{token.Draw(t, "token")}, Positions: []uint32{rapid.Uint32Range(0, 2).Draw(t, "position")}}
		for range h.Layers {
			r.Keys = append(r.Keys, []uint32{token.Draw(t, "key")})
			r.Experts = append(r.Experts, rapid.SliceOfNDistinct(rapid.Uint16Range(0, uint16(h.Experts-1)), h.TopK, h.TopK, rapid.ID).Draw(t, "experts"))
		}
		if err := b.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A posterior sums to 1, whatever is known and whatever the text; rows are as many as are chosen;
// and a snapshot is the table.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawn(t)
		m := rapid.SampledFrom(Methods()).Draw(t, "method")
		text := rapid.SliceOfN(rapid.Uint32Range(0, uint32(table.Vocab-1)), 1, 20).Draw(t, "text")
		f, err := NewFrequency(table.Vocab, text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(table, m, f)
		if err != nil {
			t.Fatal(err)
		}
		into := make([]float64, table.Experts)
		p.Posterior(1, Features{text[0], rapid.Uint32Range(0, 3).Draw(t, "position"), text[len(text)-1]}, into)
		sum := 0.0
		for _, v := range into {
			sum += v
		}
		r := &Rows{Tokens: text, Positions: make([]uint32, len(text)), Keys: [][]uint32{text, text}}
		loads, err := p.Loads(r)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0.0
		for _, v := range loads[0] {
			rows += v
		}
		if math.Abs(sum-1) > 1e-9 || math.Abs(rows-float64(len(text)*table.TopK)) > 1e-6 {
			t.Fatalf("%s: %v sum to %v, %v rows", m.Name, into, sum, rows)
		}
		data, err := table.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(data)
		if err != nil || !reflect.DeepEqual(again, table) {
			t.Fatalf("%+v, %v, want %+v", again, err, table)
		}
	})
}

func TestWith(t *testing.T) {
	table := one(t)
	before, err := table.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	changed, err := table.With([]Pair{
		{0, Features{1, 0, 2}, 0, 100}, {0, Features{1, 0, 2}, 0, 1}, // the last one counts
		{1, Features{5, 3, 3}, 2, 7}, // a new key
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Pair{{0, Features{1, 0, 2}, 0, 1}, {0, Features{1, 0, 3}, 1, 4}, {0, Features{1, 1, 2}, 2, 1}, {1, Features{1, 0, 2}, 0, 6}, {1, Features{1, 0, 3}, 1, 4}, {1, Features{1, 1, 2}, 2, 1}, {1, Features{5, 3, 3}, 2, 7}}
	if got := changed.Of([]uint32{5, 1, 1}); !slices.Equal(got, want) || changed.Pairs() != table.Pairs()+1 {
		t.Errorf("%v", got)
	}
	if after, err := table.Marshal(); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the table itself has changed, %v", err)
	}
	for want, bad := range map[string]Pair{
		"layer 2":      {2, Features{1, 0, 2}, 0, 1},
		"expert 3":     {0, Features{1, 0, 2}, 3, 1},
		"tokens 10":    {0, Features{10, 0, 2}, 0, 1},
		"1 and 10":     {0, Features{1, 0, 10}, 0, 1},
		"counts 0":     {0, Features{1, 0, 2}, 0, 0},
		"at position ": {0, Features{1, mostPositions, 2}, 0, 1},
	} {
		if _, err := table.With([]Pair{bad}); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDifference(t *testing.T) {
	table := one(t)
	r := text(1, 0, 2, 2)
	came, err := table.Real(r)
	if err != nil {
		t.Fatal(err)
	}
	if rows, relative := Difference(came, [][]float64{{1, 0, 0}, {0, 0, 1}}); rows != 2./6 || relative != 1 {
		t.Errorf("%v rows, %v", rows, relative)
	}
	if rows, relative := Difference(nil, nil); rows != 0 || relative != 0 {
		t.Errorf("of nothing %v rows, %v", rows, relative)
	}
}

func TestBadRows(t *testing.T) {
	for want, spoil := range map[string]func(*Rows){
		"token 10":               func(r *Rows) { r.Tokens[0] = 10 },
		"2 positions":            func(r *Rows) { r.Positions = append(r.Positions, 1) },
		"keys of 1 layers":       func(r *Rows) { r.Keys = r.Keys[:1] },
		"token 11 for its key":   func(r *Rows) { r.Keys[1] = []uint32{11} },
		"2 choices":              func(r *Rows) { r.Experts[0] = append(r.Experts[0], 1) },
		"chose expert 3":         func(r *Rows) { r.Experts[0] = []uint16{3} },
		"1 rows have 0 keys":     func(r *Rows) { r.Keys[0] = nil },
		"rows have keys of 2 la": func(r *Rows) { r.Experts = nil },
	} {
		r := text(1, 0, 2, 0)
		spoil(r)
		if err := NewBuilder(header()).Add(r); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := NewBuilder(header()).Table(); err == nil || !strings.Contains(err.Error(), "record 100 sequences or more") {
		t.Errorf("%v", err)
	}
	if _, err := New(&Table{}, Method{}, nil); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("%v", err)
	}
	if _, err := New(one(t), Method{}, Frequency{1}); err == nil || !strings.Contains(err.Error(), "vocabulary of 1") {
		t.Errorf("%v", err)
	}
	if _, err := MethodOf("guess"); err == nil || !strings.Contains(err.Error(), "lina") {
		t.Errorf("%v", err)
	}
	if _, err := NewFrequency(2, []uint32{2}); err == nil {
		t.Error("a token outside the vocabulary is counted")
	}
}

// FuzzUnmarshal wants an error or a table that can be asked.
func FuzzUnmarshal(f *testing.F) {
	data, err := one(f).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(magic))
	f.Add(data[:len(data)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Unmarshal(sealed(data))
		if err != nil {
			if !errors.Is(err, ErrTable) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again, err := table.Marshal(); err != nil || len(again) == 0 {
			t.Fatal(err)
		}
		if p, err := New(table, Methods()[0], nil); err == nil {
			p.Posterior(0, Features{}, make([]float64, table.Experts))
		}
	})
}

// sealed gives bytes the digest that a snapshot of them would have, so that what is behind it is
// read.
func sealed(data []byte) []byte {
	if len(data) < len(magic)+sha256.Size {
		return data
	}
	body := data[:len(data)-sha256.Size]
	digest := sha256.Sum256(body)
	return append(slices.Clone(body), digest[:]...)
}
