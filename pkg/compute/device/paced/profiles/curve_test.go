package profiles

import (
	"strings"
	"testing"
)

const curved = good + "curve: {rows: [1, 4, 16], seconds: [1e-3, 2e-3, 5e-3], source: counted}\n"

// A profile with a curve takes what that says where it is told to, and is read as it is written.
func TestCurve(t *testing.T) {
	p, err := Read("card.yaml", []byte(curved))
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = Read("card.yaml", text); err != nil {
		t.Fatalf("%v of\n%s", err, text)
	}
	if err := p.Take(Measured); err != nil || p.Compute().Seconds(p.Of(4)) != 2e-3 || p.Compute().Call != 0.5e-3 {
		t.Errorf("%v, %+v", err, p.Compute())
	}
	if got := strings.Join(p.Assumed(), " "); got != "beta_seconds bytes_per_second cold_start_seconds" || !strings.Contains(p.String(), "3 points") {
		t.Errorf("assumed are %s of\n%s", got, p)
	}
	if err := p.Take(Printed); err != nil || p.Compute().Seconds(p.Of(4)) != 8e-3 {
		t.Errorf("%v, %+v", err, p.Compute())
	}
	p.Curve = nil
	if err := p.Take(Measured); err == nil || !strings.Contains(err.Error(), "profile card has no curve of measured times; measure one with switchyard bench --rows") {
		t.Errorf("%v", err)
	}
}

func TestCurveRefused(t *testing.T) {
	for _, tc := range []struct{ name, from, to, want string }{
		{"fewer", ", 5e-3]", "]", "card.yaml:14: curve has 3 rows and 2 seconds; each point has both"},
		{"order", "[1, 4, 16]", "[1, 16, 4]", "card.yaml:14: point 2 of a curve has 4 rows and the one before it 16; rows must ascend"},
		{"none", "rows: [1, 4, 16], seconds: [1e-3, 2e-3, 5e-3]", "rows: [], seconds: []", "a curve has no points"},
		{"negative", "[1e-3,", "[-1e-3,", "card.yaml:14: seconds of curve is -0.001; it must be from 1e-12 to 3600"},
		{"half a row", "[1, 4,", "[1, 4.5,", "rows of curve is 4.5; it must be a whole number"},
		{"no list", "[1, 4, 16]", "4", "rows of curve must be a list of up to 1000 numbers"},
		{"no source", ", source: counted}\n", "}\n", `"source" is missing in curve`},
	} {
		at := strings.Index(curved, "curve:")
		text := curved[:at] + strings.Replace(curved[at:], tc.from, tc.to, 1)
		if _, err := Read("card.yaml", []byte(text)); text == curved || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
