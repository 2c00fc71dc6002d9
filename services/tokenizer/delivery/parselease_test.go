package delivery

import (
	"fmt"
	"testing"
)

func TestParseLease(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"shard-7-v2-00000000000000ff": "7 2 255",
		"planner":                     "", "shard-3": "", "shard-x": "", "shard-3-": "", "shard-3-v2-ff": "", "shard--1": "", "shard-3-v2-00000000000000ff-": "",
	} {
		got := ""
		if l, ok := parseLease(key); ok {
			got = fmt.Sprint(l.shard, l.id.Version, l.id.Model)
		}
		if got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
}
