package admission

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPortionsOfABound(t *testing.T) {
	s := NewPortions(12)
	for _, c := range []struct {
		name, who string
		n         int64
		want      bool
	}{
		{"one alone", "a", 6, true},
		{"gets no more than a half", "a", 1, false},
		{"another one", "b", 3, true},
		{"gets no more than is left", "b", 1, false},
		{"a third one, something large", "c", 3, true},
		{"nothing is left", "d", 1, false},
	} {
		if got := s.Take(c.who, c.n); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	s.Give("a", 6)
	if !s.Take("d", 6) || s.Had() != 12 {
		t.Errorf("what was given back cannot be taken: %d are had", s.Had())
	}
}

// However those before want, the next one gets something of what is free, and what is
// given back is free again.
func TestPortionsAreNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewPortions(rapid.Int64Range(1, 100).Draw(t, "size"))
		type held struct {
			who string
			n   int64
		}
		var all []held
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			who, n := rapid.StringMatching("[a-e]").Draw(t, "who"), rapid.Int64Range(1, 20).Draw(t, "n")
			if len(all) > 0 && rapid.Bool().Draw(t, "give") {
				h := all[len(all)-1]
				all = all[:len(all)-1]
				s.Give(h.who, h.n)
			} else if s.Take(who, n) {
				all = append(all, held{who, n})
			}
			sum := int64(0)
			for _, h := range all {
				sum += h.n
			}
			if s.Had() != sum || sum > s.size {
				t.Fatalf("%d are had, %d were taken, of %d", s.Had(), sum, s.size)
			}
		}
		for _, h := range all {
			s.Give(h.who, h.n)
		}
		if s.Had() != 0 || len(s.by) != 0 {
			t.Fatalf("%d are left, by %v", s.Had(), s.by)
		}
	})
}
