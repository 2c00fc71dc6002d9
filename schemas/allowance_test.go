package schemas

import (
	"testing"
	"time"
)

// What a tokenizer writes of limits is what a gateway reads, and what is none is no bound.
func TestLimits(t *testing.T) {
	for _, l := range []Allowance{
		{}, {Tokens: Limit{600, 599, 100 * time.Millisecond}}, {Requests: Limit{Most: 3}, Tokens: Limit{1 << 52, 1, time.Minute}},
	} {
		if got := ParseAllowance(l.String()); got != l {
			t.Errorf("%+v became %q, and that %+v", l, l.String(), got)
		}
	}
	for _, text := range []string{"x", "tokens", "tokens=1/2", "tokens=3/2/1", "tokens=-1/2/1", "tokens=1/0/1", "tokens=1/2/99999999999", "others=1/2/3"} {
		if got := ParseAllowance(text); got != (Allowance{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
