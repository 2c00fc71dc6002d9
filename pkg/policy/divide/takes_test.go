package divide

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

func TestTakesOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom([]cost.Timer{
			cost.Roofline{Bandwidth: 700e9, Rate: 70e12, ElementBytes: 2, Overhead: 3e-6}, cost.Roofline{Bandwidth: 1e9, Rate: 1e11, ElementBytes: 1}, cost.Printed{Alpha: 57e-6},
		}).Draw(t, "timer")
		const bytes, message = 352e6, 25e-6
		d := cost.Device{Timer: of, Call: rapid.SampledFrom([]float64{0, 20e-6}).Draw(t, "call")}
		takes := TakesOf(d, bytes, message)
		a := cost.Access{Bytes: bytes, Rows: rapid.IntRange(0, 5000).Draw(t, "rows")}
		want := d.Compute(a)
		if a.Rows > 0 {
			want += message
		}
		if got := takes.Device(bytes).Compute(a); takes.Check() != nil || math.Abs(got-want) > 1e-6*want {
			t.Fatalf("%+v takes %v for %d rows, want %v", takes, got, a.Rows, want)
		}
	})
}

func TestTakesRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		takes Takes
		want  string
	}{
		{"no number", Takes{Read: math.NaN()}, "reading an expert takes NaN"},
		{"for ever", Takes{Row: math.Inf(1)}, "a row takes +Inf"},
		{"less than nothing", Takes{Unit: -1}, "an expert beside its rows takes -1"},
		{"too long", Takes{Call: 3601}, "a message takes 3601"},
		{"nothing", Takes{}, ""},
	} {
		if err := tc.takes.Check(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// A function of several experts is read whole by each host that has rows of it.
func TestUnits(t *testing.T) {
	d := New(Takes{Read: 1, Row: 0.01}.Device(1), 1, 2)
	for _, tc := range []struct {
		name  string
		units int
		want  int
	}{{"one expert is divided", 1, 2}, {"four are read once", 4, 1}} {
		if got := d.Least(nil, []Expert{{Rows: 300, Hosts: []int{0, 1}, Units: tc.units}}); len(got) != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
