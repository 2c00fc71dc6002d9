package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestRanged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]float64{"200:500:100": {200, 300, 400, 500}, "1:2:0.4": {1, 1.4, 1.8}, "3": {3}, "5, 4,4": {5, 4, 4}, "7:7:1": {7}} {
		got, err := ranged("memory", text)
		if err != nil || !slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "name numbers as", "a": "name numbers as", "1:2": "a range has", "1:2:0": "the step must be above 0", "2:1:1": "no less than the first", "0:1e9:1": "there may be 1000", "NaN": "name numbers as",
		strings.Repeat("1,", 1001): "names more than 1000",
	} {
		if _, err := ranged("memory", text); err == nil || !strings.Contains(err.Error(), want) || ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if got, err := Megabytes("memory", "1,2"); err != nil || !slices.Equal(got, []float64{1 << 20, 2 << 20}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Megabytes("memory", ""); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
