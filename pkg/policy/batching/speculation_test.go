package batching

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDraft(t *testing.T) {
	for name, c := range map[string]struct {
		ids     []uint32
		n       int
		want    []uint32
		matched int
	}{
		"nothing said":         {nil, 4, nil, 0},
		"nothing said twice":   {[]uint32{1, 2, 3, 4}, 4, nil, 0},
		"one token again":      {[]uint32{1, 2, 3, 1}, 4, nil, 0},
		"two tokens again":     {[]uint32{1, 2, 3, 4, 1, 2}, 2, []uint32{3, 4}, 2},
		"the longest match":    {[]uint32{7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}, 1, []uint32{3}, 3},
		"the newest of two":    {[]uint32{1, 2, 3, 1, 2, 4, 1, 2}, 1, []uint32{4}, 2},
		"a period goes on":     {[]uint32{5, 1, 2, 1, 2}, 5, []uint32{1, 2, 1, 2, 1}, 2},
		"one token over again": {[]uint32{3, 3, 3, 3}, 3, []uint32{3, 3, 3}, 3},
		"none wanted":          {[]uint32{1, 2, 1, 2}, 0, nil, 0},
	} {
		if got, matched := Draft(c.ids, c.n, nil); !slices.Equal(got, c.want) || matched != c.matched {
			t.Errorf("%s: %v after a match of %d, want %v of %d", name, got, matched, c.want, c.matched)
		}
	}
}

// A guess follows a place where the matched tokens stood, and no earlier place has a longer match.
func TestDraftFollowsMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint32Range(0, 3), 0, 60).Draw(t, "ids")
		n := rapid.IntRange(1, 12).Draw(t, "n")
		got, matched := Draft(ids, n, []uint32{99})
		if got[0] != 99 {
			t.Fatal("what was in out is gone")
		}
		got = got[1:]
		longest := 0
		for end := 1; end < len(ids); end++ {
			k := 0
			for k < end && k < most && ids[end-1-k] == ids[len(ids)-1-k] {
				k++
			}
			longest = max(longest, k)
		}
		if longest < least {
			longest = 0
		}
		if matched != longest || (matched > 0) != (len(got) == n) {
			t.Fatalf("%v: %v after a match of %d, want one of %d", ids, got, matched, longest)
		}
		whole := append(slices.Clone(ids), got...)
		for i := range got { // each guessed token has followed the tokens before it, or continues a period
			found := false
			for end := matched; end < len(ids) && !found; end++ {
				found = slices.Equal(whole[end-matched:end], ids[len(ids)-matched:]) && matchesPeriod(whole, end, len(ids), i)
			}
			if !found {
				t.Fatalf("%v: %v follows no match", ids, got)
			}
		}
	})
}

// matchesPeriod reports whether guess i of ids that end at n is what stands as far behind place at.
func matchesPeriod(whole []uint32, at, n, i int) bool { return whole[n+i] == whole[at+i] }

func TestLength(t *testing.T) {
	var a Acceptance
	if got := a.Length(4, 0.1, 8); got != 3 { // 1/2, 1/4, 1/8
		t.Errorf("at first %d tokens, want 3", got)
	}
	if got := a.Length(4, 0.6, 8); got != 0 {
		t.Errorf("%d tokens at a price above the chance", got)
	}
	for range 20 {
		a.Observe(4, 8, 8)
	}
	if got := a.Length(4, 0.1, 8); got != 8 {
		t.Errorf("after 160 right ones %d tokens, want 8", got)
	}
	if got := a.Length(2, 0.1, 8); got != 1 { // 1/4, 1/16
		t.Errorf("matches of another length changed it: %d tokens", got)
	}
	for range 60 {
		a.Observe(4, 8, 0)
	}
	if got := a.Length(4, 0.2, 8); got != 0 {
		t.Errorf("after 60 wrong ones %d tokens, want none", got)
	}
	tries := 0
	for a.Length(4, 0.2, 8) == 0 {
		if tries++; tries > 1000 {
			t.Fatal("it never tries again")
		}
	}
}

// The price is the slope of what steps take, whatever their sizes were, and with one size a guess.
func TestPrice(t *testing.T) {
	var p Price
	if got := p.Row(8); got != 0.5 {
		t.Errorf("without a step a row of 8 costs %v, want 0.5", got)
	}
	for range 100 {
		p.Observe(4, 0.01)
	}
	if got := p.Row(4); math.Abs(got-1./3) > 1e-9 {
		t.Errorf("steps of one size: %v, want a third", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(1e-4, 1e-2).Draw(t, "a"), rapid.Float64Range(1e-5, 1e-2).Draw(t, "b")
		var p Price
		for i := range 200 {
			rows := 1 + i%5
			p.Observe(rows, a+b*float64(rows))
		}
		s := rapid.IntRange(1, 5).Draw(t, "sequences")
		want := float64(s) * b / (a + b*float64(s))
		want = min(1, max(lowest, float64(s)/(fixed+float64(s))/4, want))
		if got := p.Row(s); math.Abs(got-want) > 1e-6 {
			t.Fatalf("a row of %d costs %v, want %v", s, got, want)
		}
	})
	p = Price{}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		p.Observe(3, bad)
	}
	p.Observe(0, 1)
	if got := p.Row(8); math.IsNaN(got) || got <= 0 || got > 1 {
		t.Errorf("after bad times %v", got)
	}
}

func BenchmarkDraft(b *testing.B) {
	ids := make([]uint32, reach)
	for i := range ids {
		ids[i] = uint32(i * 7919 % 5003)
	}
	out := make([]uint32, 0, 8)
	for b.Loop() {
		out, _ = Draft(ids, 8, out[:0])
	}
}

func TestFixed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps [][2]float64 // rows, seconds
		want  int
	}{
		{"nothing is known", nil, fixed},
		{"steps of one size", [][2]float64{{4, 1}, {4, 1}, {4, 1}}, fixed},
		{"five rows", [][2]float64{{1, 6}, {5, 10}, {15, 20}}, 5},
		{"rows that cost nothing", [][2]float64{{1, 6}, {5, 6}, {15, 6}}, fixed},
		{"rows that cost hardly anything", [][2]float64{{1, 6}, {5, 6.001}, {15, 6.002}}, mostFixed},
		{"rows alone", [][2]float64{{1, 1}, {5, 5}, {9, 9}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Price{}
			for _, s := range tc.steps {
				p.Observe(int(s[0]), s[1])
			}
			if got := p.Fixed(); got != tc.want {
				t.Errorf("%d rows, want %d", got, tc.want)
			}
		})
	}
}
