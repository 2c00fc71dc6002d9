package unit

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in, want string
		kind     bool
	}{
		{in: "3/routed/17"},
		{in: "0/united/0"},
		{in: "", want: "names no unit"},
		{in: "3/routed", want: "names no unit"},
		{in: "-1/routed/2", want: `layer "-1"`},
		{in: "1/routed/x", want: `index "x"`},
		{in: "1/routed/4294967296", want: "index"},
		{in: "1/shared/2", want: `unknown kind of unit "shared"; known are routed and united`, kind: true},
	}
	for _, tt := range tests {
		u, err := Parse(tt.in)
		switch {
		case tt.want == "" && (err != nil || u.String() != tt.in):
			t.Errorf("%q: got %v, %v", tt.in, u, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%q: got error %v, want %q", tt.in, err, tt.want)
		case errors.Is(err, ErrKind) != tt.kind:
			t.Errorf("%q: errors.Is(%v, ErrKind) is %v", tt.in, err, !tt.kind)
		}
	}
}

func TestParseReadsString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := Unit{rapid.IntRange(0, 1<<31-1).Draw(t, "layer"), rapid.SampledFrom([]Kind{Routed, United}).Draw(t, "kind"), rapid.IntRange(0, 1<<31-1).Draw(t, "index")}
		if got, err := Parse(u.String()); err != nil || got != u {
			t.Errorf("%v came back as %v, %v", u, got, err)
		}
	})
}

func TestKindCheck(t *testing.T) {
	for k := range Kind(4) {
		if err := k.Check(); (err == nil) != (k == Routed || k == United) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
}

func TestCompare(t *testing.T) {
	ordered := []Unit{Expert(0, 5), {0, United, 1}, Expert(1, 0), Expert(1, 2)}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := Compare(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("Compare(%v, %v) is %d", a, b, got)
			}
		}
	}
}
