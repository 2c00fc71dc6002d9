package unit

import "testing"

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
