package brownout

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawRows(t *rapid.T) Rows {
	n := rapid.IntRange(2, 40).Draw(t, "experts")
	return Rows{Count: rapid.SliceOfN(rapid.OneOf(rapid.Just(int32(0)), rapid.Int32Range(0, 5), rapid.Int32Range(0, 70000)), n, n).Draw(t, "counts")}
}

func drawSettings(t *rapid.T, experts int) Settings {
	s := Settings{Strategy: Partial, Way: rapid.IntRange(2, min(9, experts)).Draw(t, "way"), Threshold: rapid.IntRange(0, One).Draw(t, "threshold")}
	if rapid.Bool().Draw(t, "full") {
		s.Strategy = Full
	}
	if rapid.Bool().Draw(t, "gaps") {
		s.Without = rapid.SliceOfN(rapid.Bool(), Groups(experts, s.Way), Groups(experts, s.Way)).Draw(t, "without")
	}
	if rapid.Bool().Draw(t, "grouped") {
		s.Grouping, _ = NewGrouping(rapid.Permutation(ids(experts)).Draw(t, "order"))
	}
	return s
}

func split(t interface{ Fatal(...any) }, s Settings, r Rows) Decision {
	var p Splitter
	d, err := p.Split(s, r)
	if err != nil {
		t.Fatal(err)
	}
	return *d
}

// S1 reaches the threshold, and would not without its last expert; experts outside it have no
// more rows than any inside; every expert with rows has one fate.
func TestPrefixIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRows(t)
		s := drawSettings(t, len(r.Count))
		d := split(t, s, r)
		own, least, most, total := int64(0), int64(math.MaxInt64), int64(0), int64(0)
		for e, f := range d.Fate {
			n := int64(r.Count[e])
			total += n
			switch {
			case f == Idle != (n == 0):
				t.Fatalf("expert %d of %d rows is %v", e, n, f)
			case f == Own:
				own, least = own+n, min(least, n)
			default:
				most = max(most, n)
			}
		}
		want := int64(s.Threshold) * total
		if own*One < want || own > 0 && ((own-least)*One >= want || most > least) {
			t.Fatalf("S1 has %d of %d rows, its least expert %d, S2's largest %d", own, total, least, most)
		}
		if s.Threshold == 0 && own > 0 || s.Threshold == One && own != total {
			t.Fatalf("threshold %d keeps %d of %d", s.Threshold, own, total)
		}
	})
}

// A higher threshold keeps what a lower one keeps, and accesses no less; never more than without.
func TestNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRows(t)
		low := drawSettings(t, len(r.Count))
		high := low
		high.Threshold = rapid.IntRange(low.Threshold, One).Draw(t, "higher")
		a, b := split(t, low, r), split(t, high, r)
		for e := range a.Fate {
			if a.Fate[e] == Own && b.Fate[e] != Own {
				t.Fatalf("expert %d is kept at %d, not at %d", e, low.Threshold, high.Threshold)
			}
		}
		if a.After > b.After || b.After > b.Before || a.Kept > b.Kept {
			t.Fatalf("%d accesses at %d, %d at %d, %d without; %d and %d rows kept", a.After, low.Threshold, b.After, high.Threshold, b.Before, a.Kept, b.Kept)
		}
	})
}

// Each slot of a row has one fate, whatever the order of rows; a partial brownout keeps the
// row's weights.
func TestRedirect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRows(t)
		experts := len(r.Count)
		k := rapid.IntRange(1, min(4, experts)).Draw(t, "k")
		var rows [][]int32
		clear(r.Count)
		for range rapid.IntRange(1, 12).Draw(t, "rows") {
			row := rapid.Permutation(ids(experts)).Draw(t, "row")[:k]
			for _, e := range row {
				r.Count[e]++
			}
			rows = append(rows, row)
		}
		s := drawSettings(t, experts)
		d := split(t, s, r)
		degraded := 0
		for _, row := range rows {
			got, weight := slices.Clone(row), make([]float32, k)
			for i := range weight {
				weight[i] = float32(i + 1)
			}
			degraded += d.Redirect(got, weight)
			checkRow(t, s, &d, row, got, weight)
		}
		if degraded != d.Total-d.Kept {
			t.Fatalf("%d slots are degraded, the decision says %d", degraded, d.Total-d.Kept)
		}
	})
}

func ids(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func checkRow(t *rapid.T, s Settings, d *Decision, row, got []int32, weight []float32) {
	sum, want, seen := float32(0), float32(0), map[int32]bool{}
	for i, e := range got {
		f := d.Fate[row[i]]
		if f != Dropped {
			want += float32(i + 1)
		}
		sum += weight[i]
		switch {
		case f.Itself() && e != row[i], f == Dropped && e != NoExpert, e == NoExpert && weight[i] != 0:
			t.Fatalf("slot %d: expert %d of fate %v became %d", i, row[i], f, e)
		case f == United && e != NoExpert && int(e) != len(d.Fate)+s.Grouping.Group(int(row[i]), s.Way):
			t.Fatalf("slot %d: expert %d became %d by way %d", i, row[i], e, s.Way)
		case e != NoExpert && seen[e]:
			t.Fatalf("expert %d has two slots of a row", e)
		}
		seen[e] = true
	}
	if sum != want {
		t.Fatalf("weights sum to %v, want %v", sum, want)
	}
}

// By loss, as few accesses cost no more, and of few experts nothing is cheaper.
func TestLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "experts")
		r := Rows{Count: rapid.SliceOfN(rapid.Int32Range(0, 9), n, n).Draw(t, "counts")}
		s := drawSettings(t, n)
		plain := split(t, s, r)
		r.Loss = rapid.SliceOfN(rapid.Float64Range(0, 10), n, n).Draw(t, "loss")
		d := split(t, s, r)
		if d.After != plain.After {
			t.Fatalf("%d accesses, %d by counts", d.After, plain.After)
		}
		got, best := lossOf(&d, r.Loss), math.Inf(1)
		for set := range 1 << n {
			if c := assigned(s, r, set); c != nil && c.After <= plain.After {
				best = min(best, lossOf(c, r.Loss))
			}
		}
		if got > best+1e-9 || got > lossOf(&plain, r.Loss)+1e-9 {
			t.Fatalf("loss %v, the least is %v, by counts %v", got, best, lossOf(&plain, r.Loss))
		}
	})
}

func lossOf(d *Decision, loss []float64) (sum float64) {
	for e, f := range d.Fate {
		if f == United || f == Dropped {
			sum += loss[e]
		}
	}
	return sum
}

// assigned is the decision whose S2 is a set of experts; nil if experts of it have no rows.
func assigned(s Settings, r Rows, set int) *Decision {
	var p Splitter
	if p.begin(s, r) != nil {
		return nil
	}
	for e, n := range r.Count {
		in := set>>e&1 == 1
		if in && n == 0 {
			return nil
		}
		if n > 0 {
			p.d.Fate[e] = Own
			if in {
				p.d.Fate[e] = Dropped
			}
		}
	}
	if s.Strategy == Partial {
		p.unite(s, r.Count)
	}
	p.finish(r.Count)
	return &p.d
}

// Phases that are decided together access no more than without brownout, and rows that are
// never degraded keep their experts, which serve all.
func TestPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawRows(t)
		n := len(a.Count)
		draw := func(name string) []int32 { return rapid.SliceOfN(rapid.Int32Range(0, 6), n, n).Draw(t, name) }
		b, never := Rows{Count: draw("decode")}, draw("never")
		s := drawSettings(t, n)
		if rapid.Bool().Draw(t, "by loss") {
			a.Loss = rapid.SliceOfN(rapid.Float64Range(0, 10), n, n).Draw(t, "losses")
			b.Loss = rapid.SliceOfN(rapid.Float64Range(0, 10), n, n).Draw(t, "losses of answers")
		}
		other := s
		other.Threshold = rapid.IntRange(0, One).Draw(t, "other")
		var p Pair
		d, accesses, err := p.Split([2]Settings{s, other}, [2]Rows{a, b}, never)
		if err != nil {
			t.Fatal(err)
		}
		without := 0
		for e := range n {
			if a.Count[e]+b.Count[e]+never[e] > 0 {
				without++
			}
			for i, r := range []Rows{a, b} {
				itself := d[i].Fate[e].Itself()
				visited := never[e] > 0 || d[1-i].Fate[e].Itself()
				if visited && r.Count[e] > 0 && !itself {
					t.Fatalf("phase %d: expert %d is accessed anyway and is %v", i, e, d[i].Fate[e])
				}
			}
		}
		if accesses > without {
			t.Fatalf("%d accesses, %d without", accesses, without)
		}
	})
}

// A controller stays in its bounds, whatever it hears.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Paper(0.15)
		r.Floor = rapid.IntRange(0, One).Draw(t, "floor")
		c, err := NewController(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		now := 0.0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.Float64Range(0, 4).Draw(t, "pause")
			before := c.Threshold()
			c.Observe(now, rapid.OneOf(rapid.Float64Range(0, 0.4), rapid.Just(math.NaN()), rapid.Just(-1.0)).Draw(t, "latency"))
			ch := c.Advance(now, rapid.Bool().Draw(t, "busy"))
			if ch.Threshold != c.Threshold() || ch.Threshold < r.Floor || ch.Threshold > One || ch.Moved != (ch.Threshold != before) {
				t.Fatalf("%+v after %d, floor %d", ch, before, r.Floor)
			}
		}
	})
}
