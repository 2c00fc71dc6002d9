package intake

import (
	"fmt"
	"strings"
	"testing"
)

// What is said of models has few names, and none that is long.
func TestNameServed(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	long := strings.Repeat("x", maxServedName+1)
	for _, tc := range []struct {
		own    string
		others []string
		want   string
	}{
		{"demo", nil, "demo"},
		{"demo", []string{"z", "demo", "a", "a"}, "demo, a, z"},
		{"demo", many, "demo, m00, m01, m02, m03, m04, m05, m06, m07, m08 and 21 more"},
		{"demo", []string{long}, "demo and 1 more"},
		{long, nil, "1 models"},
	} {
		if got := nameServed(tc.own, tc.others); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
