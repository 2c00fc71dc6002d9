package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/batching"
)

// ready is "request@position+prefill" for each item.
func readyOf(t *testing.T, text string) (items []batching.Item) {
	t.Helper()
	for _, one := range strings.Fields(text) {
		it := batching.Item{}
		name, rest, _ := strings.Cut(one, "@")
		if _, err := fmt.Sscanf(rest, "%d+%d", &it.Position, &it.Prefill); err != nil {
			t.Fatal(one, err)
		}
		it.Request = name
		items = append(items, it)
	}
	return items
}

// A prompt of two pieces, then two requests that decode together.
func twoRequests() *Script {
	return &Script{Patience: 10, Steps: []Scripted{
		{At: 1, Parts: []Rows{{"a", 0, 4}}},
		{At: 2, Parts: []Rows{{"a", 4, 2}, {"b", 0, 3}}},
		{At: 3, Parts: []Rows{{"b", 3, 1}, {"a", 6, 1}}},
	}}
}

type asked struct {
	now   float64
	ready string
	want  []batching.Take
	again float64
	fails string
}

func TestScript(t *testing.T) {
	for _, tc := range []struct {
		name  string
		paced bool
		asks  []asked
	}{
		{"as soon as rows are there", false, []asked{
			{0.1, "", nil, 0, ""},
			{0.2, "b@0+3", nil, 0, ""},
			{0.3, "b@0+3 a@0+6", []batching.Take{{Index: 1, Rows: 4}}, 0, ""},
			{0.4, "b@0+3", nil, 0, ""},
			{0.5, "b@0+3 a@4+2", []batching.Take{{Index: 1, Rows: 2}, {Index: 0, Rows: 3}}, 0, ""},
			{0.6, "a@6+0 b@3+0 c@0+9", []batching.Take{{Index: 1, Rows: 1}, {Index: 0, Rows: 1}}, 0, ""},
			{0.7, "c@0+9", nil, 0, ""},
		}},
		{"no sooner than before", true, []asked{
			{0.25, "a@0+6 b@0+3", nil, 0.75, ""},
			{1, "a@0+6 b@0+3", []batching.Take{{Index: 0, Rows: 4}}, 0, ""},
			{1.5, "a@4+2 b@0+3", nil, 0.5, ""},
			{2.5, "a@4+2 b@0+3", []batching.Take{{Index: 0, Rows: 2}, {Index: 1, Rows: 3}}, 0, ""},
		}},
		{"a request that never comes", false, []asked{
			{0.1, "a@0+6", []batching.Take{{Index: 0, Rows: 4}}, 0, ""},
			{11.9, "a@4+2", nil, 0, ""},
			{12.1, "a@4+2", nil, 0, "step 2 of 3 cannot be made again: request b has had no rows for 10 s"},
		}},
		{"one that was cancelled", false, []asked{
			{0.1, "a@0+6", []batching.Take{{Index: 0, Rows: 4}}, 0, ""},
			{50, "a@4+2 b@0+3", []batching.Take{{Index: 0, Rows: 2}, {Index: 1, Rows: 3}}, 0, ""},
			{59, "b@3+0", nil, 0, ""},
			{61, "b@3+0", nil, 0, "step 3 of 3 cannot be made again: request a has had no rows"},
		}},
		{"a shorter prompt", false, []asked{
			{0.1, "a@0+3", nil, 0, "step 1 of 3 cannot be made again: request a has 3 rows from position 0 on; the step had 4 from 0 on"},
		}},
		{"rows that were computed already", false, []asked{
			{0.1, "a@2+4", nil, 0, "request a has 4 rows from position 2 on"},
		}},
	} {
		s := twoRequests()
		s.Paced = tc.paced
		for i, ask := range tc.asks {
			got, again, err := s.Next(ask.now, readyOf(t, ask.ready), nil)
			var failed *ScriptError
			if errors.As(err, &failed) != (ask.fails != "") || err != nil && !strings.Contains(err.Error(), ask.fails) {
				t.Errorf("%s, ask %d: %v, want %q", tc.name, i, err, ask.fails)
			}
			if !slices.Equal(got, ask.want) || again != ask.again {
				t.Errorf("%s, ask %d: %v, again in %v; want %v, %v", tc.name, i, got, again, ask.want, ask.again)
			}
		}
	}
	s := twoRequests()
	if s.Ended() || (&Script{}).Ended() != true {
		t.Error("a script ends when its steps are made")
	}
	var failed *ScriptError
	if err := error(s.Failed("b", "ended")); !errors.As(err, &failed) || failed.Step != 1 || failed.Request != "b" {
		t.Errorf("%v", err)
	}
}
