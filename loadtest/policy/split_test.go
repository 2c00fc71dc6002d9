package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// The paper's figure 5b (with the rows of E0 and E2 at UE0).
const figure = `{"way": 3, "threshold_millionths": 600000, "counts": [2, 4, 1, 5, 2, 1, 2, 3]}`

func TestSplit(t *testing.T) {
	got, err := Split("brownout", strings.NewReader(figure))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"own":[1,3,7],"lone":[6],"united":[{"group":0,"experts":[0,2]},{"group":1,"experts":[4,5]}],"accesses":6}`
	if encoded(t, got) != want {
		t.Errorf("got %s, want %s", encoded(t, got), want)
	}
	if _, err := Split("blackout", strings.NewReader(figure)); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestBadSplits(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"way 1", `"way": 3`, `"way": 1`, "the way is 1; a united expert stands in for at least 2"},
		{"way over the experts", `"way": 3`, `"way": 9`, "a layer has 8"},
		{"threshold above 1", `600000`, `1000001`, "1000001 millionths; it must be 0 to 1000000"},
		{"half a millionth", `600000`, `0.5`, "threshold_millionths is 0.5; it must be a whole number"},
		{"no threshold", `"threshold_millionths": 600000, `, ``, "threshold_millionths is missing"},
		{"negative count", `[2,`, `[-2,`, "counts[0] is -2"},
		{"half a row", `[2,`, `[2.5,`, "counts[0] is 2.5"},
		{"too many rows", `[2,`, `[4294967296,`, "counts[0] is 4.294967296e+09"},
		{"text", `[2,`, `["2",`, "counts[0] must be a number"},
		{"no list", `[2, 4, 1, 5, 2, 1, 2, 3]`, `2`, "counts must be a list"},
		{"no counts", `[2, 4, 1, 5, 2, 1, 2, 3]`, `[]`, "a layer has 0"},
		{"unknown", `"way"`, `"weigh"`, "weigh is unknown; fields here are way, threshold_millionths, counts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Split("brownout", strings.NewReader(strings.Replace(figure, tt.old, tt.new, 1)))
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
