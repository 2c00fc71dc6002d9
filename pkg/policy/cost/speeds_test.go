package cost

import (
	"strings"
	"testing"
)

func speeds(t *testing.T, sizes []float64, seconds ...float64) *Speeds {
	t.Helper()
	var curves []*Curve
	for _, v := range seconds {
		c, err := NewCurve(10, []Point{{1, v}, {3, 2 * v}})
		if err != nil {
			t.Fatal(err)
		}
		curves = append(curves, c)
	}
	s, err := NewSpeeds(sizes, curves)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Between sizes times lie on a line, below the first they grow, and beyond the last they stay; a
// platform with speeds asks them and no roofline.
func TestSpeeds(t *testing.T) {
	s := speeds(t, []float64{2, 4}, 8, 4)
	p := Platform{PerCPU: 1, CPU: Roofline{Bandwidth: 1, Rate: 1, ElementBytes: 1}, Speeds: s}
	for _, tc := range []struct {
		size  float64
		rows  int
		bytes float64
		want  float64
	}{{2, 1, 10, 8}, {3, 1, 10, 6}, {4, 1, 10, 4}, {9, 1, 10, 4}, {1, 1, 10, 16}, {4, 2, 10, 6}, {4, 1, 20, 8}, {4, 0, 10, 0}} {
		if got := p.Takes(tc.size, Access{Bytes: tc.bytes, Rows: tc.rows}); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestSpeedsRefused(t *testing.T) {
	c := speeds(t, []float64{1}, 1).curves[0]
	for want, of := range map[string][]float64{"there are 0 memory sizes": nil, "there are 1 memory sizes and 2": {1}, "size 1 is 1 bytes": {1, 1}, "size 0 is 0 bytes": {0, 1}} {
		if _, err := NewSpeeds(of, []*Curve{c, c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
