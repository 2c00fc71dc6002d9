package plans

import (
	"bytes"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
)

func testState() *State {
	return &State{Model: "demo", Settings: FromPlan(plan.DefaultSettings()), Layers: []Layer{
		{Layer: 1, Version: 4, Reason: "a\x1b[2J reason", Functions: []Function{{ID: "f", Experts: []uint32{0, 1, 2, 7}, Hosts: []string{"a", "b"}}}},
		{Layer: 3, Error: "no plan"},
	}}
}

func TestText(t *testing.T) {
	want := `model demo: policy static, grouping planner, replicas 1

layer 1, version 4, 1 functions: a?[2J reason
  f  experts 0-2,7  on a, b

layer 3: no plan
`
	if got := testState().Text(); got != want {
		t.Errorf("%s", got)
	}
	if got := (&State{Model: "demo", Settings: Settings{Error: "why"}}).Text(); got != "model demo: settings refused: why\nno plan is written yet\n" {
		t.Errorf("%s", got)
	}
}

// Who reads settings is told when plans are not made by them.
func TestScalerPlans(t *testing.T) {
	s := testState()
	for reason, want := range map[string]bool{"static: round robin": false, "moeless: saves 1 s": true, "somebody: else": false} {
		s.Layers[0].Reason = reason
		if got := strings.Contains(s.Text(), "a scaler plans, by moeless"); got != want {
			t.Errorf("%s: %s", reason, s.Text())
		}
	}
}

func TestRanges(t *testing.T) {
	for want, ids := range map[string][]uint32{"": nil, "5": {5}, "0-1": {0, 1}, "0,2-4,9": {0, 2, 3, 4, 9}, "3,1": {3, 1}} {
		if got := ranges(ids); got != want {
			t.Errorf("%v: %s, want %s", ids, got, want)
		}
	}
}

// A watch tells what is new, and nothing else.
func TestChanges(t *testing.T) {
	lines := func(before, now *State) int {
		var out bytes.Buffer
		if err := (printer{&out, true}).changes(before, now); err != nil {
			t.Fatal(err)
		}
		return strings.Count(out.String(), "\n")
	}
	settings, layer, gone := testState(), testState(), testState()
	settings.Settings.Replicas++
	layer.Layers[0].Version++
	gone.Layers = gone.Layers[:1]
	for _, tc := range []struct {
		name        string
		before, now *State
		want        int
	}{
		{"first", nil, testState(), 3},
		{"nothing", testState(), testState(), 0},
		{"settings", testState(), settings, 1},
		{"layer", testState(), layer, 1},
		{"deleted", testState(), gone, 1},
	} {
		if got := lines(tc.before, tc.now); got != tc.want {
			t.Errorf("%s: %d lines, want %d", tc.name, got, tc.want)
		}
	}
}

// Whatever lies in the bucket is shown, fit for a terminal.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x08\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &State{Settings: decodeSettings(body), Layers: []Layer{decodeLayer(1, body)}}
		if strings.ContainsAny(strings.ReplaceAll(s.Text(), "\n", ""), "\x1b\r\x00") {
			t.Errorf("%q", s.Text())
		}
	})
}
