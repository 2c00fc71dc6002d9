package chaos

import (
	"reflect"
	"testing"
)

func TestAbove(t *testing.T) {
	before := Idle{"goroutines of gate/0": 40, "consumers of HIDDEN": 2, "pages of attention/0": 0}
	for _, c := range []struct {
		name string
		now  Idle
		want []string
	}{
		{"as before", before, nil},
		{"less", Idle{"goroutines of gate/0": 30, "consumers of HIDDEN": 1}, nil},
		{"a few goroutines", Idle{"goroutines of gate/0": 40 + slack}, nil},
		{"many goroutines", Idle{"goroutines of gate/0": 41 + slack}, []string{"goroutines of gate/0: 66, and 65 may be"}},
		{"a consumer", Idle{"consumers of HIDDEN": 3}, []string{"consumers of HIDDEN: 3, and 2 may be"}},
		{"a consumer of a new stream", Idle{"consumers of NEW": 1}, []string{"consumers of NEW: 1, and 0 may be"}},
		{"pages and messages", Idle{"pages of attention/0": 1, "messages of HIDDEN": 2}, []string{"messages of HIDDEN: 2, and 0 may be", "pages of attention/0: 1, and 0 may be"}},
	} {
		if got := c.now.Above(before); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
