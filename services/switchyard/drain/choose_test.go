package drain

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/top"
)

func TestChoose(t *testing.T) {
	all := []top.Member{
		{ID: "tokenizer-a", Service: "tokenizer", Host: "one"}, {ID: "gate-ab12", Service: "gate", Host: "one"},
		{ID: "expert-x", Service: "expert", Host: "one"}, {ID: "expert-y", Service: "expert", Host: "two"}, {ID: "expert-z", Service: "expert"},
	}
	for name, want := range map[string]string{
		"expert-y": "expert-y", "one": "tokenizer-a gate-ab12 expert-x", "two": "expert-y",
		"gate-ab13": `no replica and no host "gate-ab13" of model demo is here; nearest: gate-ab12`, "gate": "nearest: gate-ab12",
		"expert-": "nearest: expert-x, expert-y, expert-z", "tow": "nearest: two", "": `no host ""`, strings.Repeat("x", 9999): "nearest: ",
	} {
		chosen, err := choose(all, "demo", name)
		var ids []string
		for _, m := range chosen {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := choose(nil, "demo", "gate-1"); err == nil || !strings.Contains(err.Error(), "no replica of this model is") {
		t.Errorf("%v", err)
	}
}

// Replicas of one service drain together, and before those that a token reaches later.
func TestStages(t *testing.T) {
	all := []top.Member{{ID: "t", Service: "tokenizer"}, {ID: "x", Service: "expert"}, {ID: "y", Service: "expert"}, {ID: "s", Service: "scaler"}}
	if got := stages(all); len(got) != 3 || len(got[1]) != 2 || got[1][1].ID != "y" {
		t.Errorf("%v", got)
	}
	if got := stages(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"ab", "abc", 0}, {"abd", "abc", 1}, {"", "abc", 3}, {"xabc", "abc", 1}, {"acb", "abc", 2}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
