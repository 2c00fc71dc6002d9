package cost

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// a6000 is NVIDIA's RTX A6000 by its data sheet, at half of its dense bf16 peak.
var a6000 = Roofline{Bandwidth: 768e9, Rate: 77.4e12, Overhead: 10e-6, ElementBytes: 2}

// mixtral are the bytes of an expert of Mixtral-8x7B in bf16.
const mixtral = 3 * 4096 * 14336 * 2

func near(a, b, by float64) bool { return math.Abs(a-b) <= by*math.Abs(b) }

func TestRoofline(t *testing.T) {
	for _, tc := range []struct {
		rows int
		want float64
	}{
		{0, 0},
		{-1, 0},
		{1, 458.8e-6 + 10e-6},
		{8, 458.8e-6 + 10e-6},
		{1000, 4.552e-3 + 10e-6},
	} {
		if got := a6000.Seconds(Access{mixtral, tc.rows}); !near(got, tc.want, 1e-3) {
			t.Errorf("%d rows take %v s, want %v", tc.rows, got, tc.want)
		}
	}
	if got := a6000.Row(mixtral); !near(got, 4.55e-6, 1e-3) {
		t.Errorf("a row takes %v s", got)
	}
	if got := a6000.Ridge(); !near(got, 100.8, 1e-3) {
		t.Errorf("the ridge is at %v rows", got)
	}
}

// Two replicas on one host take the weights' reading twice; by the printed form they
// take what one does. A call costs once, and nothing without rows.
func TestDevice(t *testing.T) {
	whole, half := Access{mixtral, 8}, Access{mixtral, 4}
	d := Device{Timer: a6000, Call: 40e-6}
	if got, want := d.Compute(half, half), 2*a6000.Seconds(whole)+40e-6; !near(got, want, 1e-9) {
		t.Errorf("two halves of 8 rows take %v s, want %v", got, want)
	}
	if got := d.Compute(Access{mixtral, 0}); got != 0 {
		t.Errorf("no rows take %v s", got)
	}
	p := Device{Timer: Printed{Alpha: 57e-6}}
	if got, want := p.Compute(half, half), p.Compute(whole); got != want || p.Compute(Access{mixtral, -3}) != 0 {
		t.Errorf("printed: two halves take %v s, the whole %v", got, want)
	}
}

// Transfers have a link one after the other, while the latency of the next one passes.
func TestLink(t *testing.T) {
	l := Link{Latency: 3, Bandwidth: 10}
	first := l.Done(1, 0, 20)
	for _, tc := range []struct{ got, want float64 }{
		{l.Transfer(20), 2}, {l.Seconds(20), 5}, {first, 6}, {l.Done(2, first, 20), 8}, {l.Done(4, first, 20), 9},
		{Link{Latency: 3}.Seconds(20), 3}, {Link{}.Done(1, 0, 20), 1},
	} {
		if tc.got != tc.want {
			t.Errorf("%v s, want %v", tc.got, tc.want)
		}
	}
	for _, bad := range []Link{{Latency: -1}, {Bandwidth: -1}, {Latency: math.NaN()}, {Bandwidth: math.Inf(1)}} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), "both must be finite, and 0 or above") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

func TestMessages(t *testing.T) {
	m := Messages{Each: 5, Row: 0.5}
	if got := []float64{m.Seconds(2, 4), m.Seconds(-1, -1)}; got[0] != 12 || got[1] != 0 {
		t.Errorf("%v", got)
	}
	s := Sent{Printed{Alpha: 1}, m}
	if got := []float64{s.Seconds(Access{}), s.Seconds(Access{Rows: 2})}; got[0] != 0 || got[1] != 8 {
		t.Errorf("%v s, want none without rows, and 8", got)
	}
}

func TestCurve(t *testing.T) {
	c, err := NewCurve(100, []Point{{1, 2}, {4, 5}, {8, 4}, {16, 10}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		bytes float64
		rows  int
		want  float64
	}{
		{100, 0, 0}, {100, 1, 2}, {100, 2, 3}, {100, 4, 5}, {100, 6, 5}, {100, 12, 7.5}, {100, 32, 20}, {50, 16, 5},
	} {
		if got := c.Seconds(Access{tc.bytes, tc.rows}); !near(got, tc.want, 1e-12) {
			t.Errorf("%d rows of %v bytes take %v s, want %v", tc.rows, tc.bytes, got, tc.want)
		}
	}
	one, err := NewCurve(100, []Point{{4, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if got := one.Seconds(Access{100, 8}); got != 4 {
		t.Errorf("beyond the only point: %v s, want 4", got)
	}
}

func TestNoCurve(t *testing.T) {
	for _, tc := range []struct {
		bytes  float64
		points []Point
		want   string
	}{
		{0, []Point{{1, 1}}, "units of 0 bytes"},
		{math.NaN(), []Point{{1, 1}}, "units of NaN bytes"},
		{1, nil, "no points"},
		{1, []Point{{0, 1}}, "0 rows in 1 s"},
		{1, []Point{{1, math.NaN()}}, "1 rows in NaN s"},
		{1, []Point{{1, 1}, {1, 2}}, "rows must ascend"},
	} {
		if _, err := NewCurve(tc.bytes, tc.points); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.points, err, tc.want)
		}
	}
}

// Whatever the timer: no rows take no time, and more rows never take less.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		above := rapid.Float64Range(1e-6, 1e6)
		var points []Point
		for rows := 0; len(points) < 5; {
			rows += rapid.IntRange(1, 100).Draw(t, "rows")
			points = append(points, Point{rows, above.Draw(t, "seconds")})
		}
		c, err := NewCurve(above.Draw(t, "bytes"), points)
		if err != nil {
			t.Fatal(err)
		}
		for _, timer := range []Timer{
			c, Printed{above.Draw(t, "alpha")},
			Roofline{above.Draw(t, "bandwidth"), above.Draw(t, "rate"), above.Draw(t, "overhead"), rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(t, "element")},
		} {
			bytes, before := above.Draw(t, "of"), 0.0
			for rows := range 600 {
				now := timer.Seconds(Access{bytes, rows})
				if rows == 0 && now != 0 || now < before*(1-1e-12) || math.IsNaN(now) {
					t.Fatalf("%+v: %d rows take %v s, one less %v", timer, rows, now, before)
				}
				before = now
			}
		}
	})
}

// A roofline is found again from what it says, with noise too.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Roofline{Bandwidth: rapid.Float64Range(1e10, 4e12).Draw(t, "bandwidth"), ElementBytes: 2}
		want.Rate = want.Bandwidth * rapid.Float64Range(4, 400).Draw(t, "ridge")
		want.Overhead = rapid.Float64Range(0.05, 0.3).Draw(t, "overhead") * mixtral / want.Bandwidth
		call := rapid.Float64Range(0.05, 0.3).Draw(t, "call") * mixtral / want.Bandwidth
		var measured []Measurement
		for rows := 1; rows < int(64*want.Ridge())+64; rows *= 2 {
			noise := 1 + rapid.Float64Range(-0.02, 0.02).Draw(t, "noise")
			m := Measurement{Accesses: rapid.IntRange(1, 8).Draw(t, "accesses"), Access: Access{mixtral, rows}}
			m.Seconds = noise * (call + float64(m.Accesses)*want.Seconds(m.Access))
			measured = append(measured, m)
		}
		got, gotCall, err := Fit(2, measured)
		if err != nil {
			t.Fatal(err)
		}
		if e := Error(Device{got, gotCall}, measured); e > 0.05 {
			t.Fatalf("%+v, %v for %+v, %v: error %v", got, gotCall, want, call, e)
		}
	})
}

func TestNoFit(t *testing.T) {
	one := func(rows int) Measurement { return Measurement{1, Access{1e9, rows}, 1} }
	for _, tc := range []struct {
		measured []Measurement
		want     string
	}{
		{nil, "0 measurements"},
		{make([]Measurement, 4), "measurement 0 is 0 accesses of 0 rows"},
		{[]Measurement{one(1), one(2), one(3), one(4)}, "one side"},
	} {
		if _, _, err := Fit(2, tc.measured); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.measured, err, tc.want)
		}
	}
}

// A measured H200 is a roofline: flat up to some hundred rows an expert, and then a
// straight line, with the same constants for large and small experts. testdata says where
// the measurements are from.
func TestMeasured(t *testing.T) {
	measured := read(t, "testdata/h200.csv")
	r, call, err := Fit(2, measured)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name             string
		got, least, most float64
	}{
		{"error", Error(Device{r, call}, measured), 0, 0.14},
		{"bandwidth", r.Bandwidth, 4.1e12, 4.8e12}, // 4.8 TB/s by its data sheet
		{"rate", r.Rate, 600e12, 989e12},           // 989 TFLOP/s by its data sheet
		{"call", call, 10e-6, 60e-6},
		{"overhead", r.Overhead, 0, 1e-6},
	} {
		t.Logf("%s %.4g", c.name, c.got)
		if c.got < c.least || c.got > c.most {
			t.Errorf("%s is %v, want %v to %v", c.name, c.got, c.least, c.most)
		}
	}
}

// read are the measured layers of a file. Rows are dealt out evenly, so each expert that
// has rows has equally many.
func read(t *testing.T, file string) (all []Measurement) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var experts, topK, hidden, inner, tokens int
		var ms float64
		if _, err := fmt.Sscanf(line, "%d,%d,%d,%d,%d,%g", &experts, &topK, &hidden, &inner, &tokens, &ms); err != nil {
			continue // a comment, or the head
		}
		accesses := min(experts, tokens*topK)
		a := Access{Bytes: float64(3 * hidden * inner * 2), Rows: tokens * topK / accesses}
		all = append(all, Measurement{accesses, a, ms / 1e3})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no measurements", file)
	}
	return all
}
