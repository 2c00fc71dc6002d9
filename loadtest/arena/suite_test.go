package arena

import (
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		in     Range
		stated float64
		want   Verdict
	}{
		{"all beyond", Range{-0.5, -0.4}, -0.4, Reached},
		{"none", Range{-0.39, -0.3}, -0.4, Missed},
		{"within", Range{-0.5, -0.3}, -0.4, Open},
		{"the paper has none", Range{-0.5, -0.3}, 0, ""},
	} {
		if got := verdict(tt.in, tt.stated); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Claims have the interval that their verdict is by where seeds are run, and one run else.
func TestClaims(t *testing.T) {
	s := small()
	s.Variants, s.Seeds = false, 2
	with := compare(t, s)
	s.Seeds = 0
	without := compare(t, s)
	ours := 0
	for _, name := range with.suite.names() {
		if strings.HasPrefix(name, with.suite.Ours) {
			ours++
		}
	}
	if want := ours * len(with.suite.Claims); len(with.Claims) != want || len(without.Claims) != want {
		t.Fatalf("%d and %d claims, want %d", len(with.Claims), len(without.Claims), want)
	}
	for i, c := range with.Claims {
		if c.Over == nil || c.Verdict != verdict(*c.Over, c.Paper) {
			t.Errorf("with seeds: %+v", c)
		}
		if c := without.Claims[i]; c.Over != nil || c.Verdict != verdict(Range{c.Change, c.Change}, c.Paper) {
			t.Errorf("without: %+v", c)
		}
	}
	if !strings.Contains(with.tally(), "are reached") {
		t.Error(with.tally())
	}
}
