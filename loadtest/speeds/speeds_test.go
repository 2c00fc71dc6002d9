package speeds

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A quota stretches what is computed to its share of processors, in the mean of calls: a half takes
// twice as long, two threads of one and a half processors by a third longer, and whole ones not at all.
func TestQuota(t *testing.T) {
	for _, tc := range []struct {
		cpus    float64
		threads int
		want    float64
	}{{0.5, 1, 2}, {1, 1, 1}, {1.5, 2, 4. / 3}, {2, 2, 1}, {0.1, 1, 10}} {
		synctest.Test(t, func(t *testing.T) {
			q := newQuota(tc.cpus, tc.threads)
			const call, n = 7 * time.Millisecond, 400
			work := func() error { time.Sleep(call); return nil }
			began := time.Now()
			for range n {
				if err := q.call(work); err != nil {
					t.Fatal(err)
				}
			}
			if got := float64(time.Since(began)) / float64(n*call); math.Abs(got-tc.want) > 0.04*tc.want {
				t.Errorf("%v processors and %d threads: %v times as long, want %v", tc.cpus, tc.threads, got, tc.want)
			}
		})
	}
	broken := errors.New("broken")
	if err := newQuota(1, 1).call(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// What was measured fills in the rest, and says what it is.
func TestFit(t *testing.T) {
	f := &mapfile.CurveFile{Format: mapfile.CurvesFormat, Bytes: 10, Cores: 1}
	for i := range 8 {
		y := 0.2 * float64(i+1)
		f.Points = append(f.Points, mapfile.CurvePoint{Memory: y * gb, Rows: 1, Seconds: 3*math.Exp(-2*y) + 1, Extrapolated: i > 5}, mapfile.CurvePoint{Memory: y * gb, Rows: 2, Seconds: 4, Extrapolated: i > 5})
	}
	for i := range f.Points {
		if f.Points[i].Extrapolated {
			f.Points[i].Seconds = 0
		}
	}
	if err := fit(f, []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	if a := f.Fits[0]; math.Abs(a.Theta2-2) > 0.05 || a.R2 < 0.999 || a.Refused != "" || !strings.Contains(f.Fits[1].Refused, "do not fall") {
		t.Errorf("%+v", f.Fits)
	}
	for _, p := range f.Points[12:] {
		want := 3*math.Exp(-2*p.Memory/gb) + 1
		if p.Rows == 2 {
			want = 4
		}
		if math.Abs(p.Seconds-want) > 0.02*want {
			t.Errorf("%+v, want %v", p, want)
		}
	}
	path := filepath.Join(t.TempDir(), "curves.json")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	s, err := mapfile.ReadCurves(path)
	if err != nil || math.Abs(s.Seconds(0.2*gb, cost.Access{Bytes: 10, Rows: 1})-f.Points[0].Seconds) > 1e-9 {
		t.Errorf("%v", err)
	}
	if err := fit(&mapfile.CurveFile{Cores: 1, Points: []mapfile.CurvePoint{{Rows: 1, Extrapolated: true}}}, []int{1}); err == nil || !strings.Contains(err.Error(), "name smaller ones") {
		t.Errorf("%v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := mapfile.ReadCurves(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for want, text := range map[string]string{
		"invalid character":       "x",
		"it is no file of switch": "{}",
		"there are 0 memory":      `{"format": "switchyard-curves-1"}`,
		"a curve is of units of":  `{"format": "switchyard-curves-1", "points": [{"memory_bytes": 1, "rows": 1, "seconds": 1}]}`,
		"both must be above 0":    `{"format": "switchyard-curves-1", "expert_bytes": 1, "points": [{"memory_bytes": 1, "rows": 1}]}`,
		"size 0 is 0 bytes":       `{"format": "switchyard-curves-1", "expert_bytes": 1, "points": [{"rows": 1, "seconds": 1}]}`,
	} {
		if _, err := mapfile.ParseCurves([]byte(text)); !errors.Is(err, mapfile.ErrCurves) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format": "switchyard-curves-1", "expert_bytes": 1, "points": [{"memory_bytes": 1, "rows": 1, "seconds": 1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := mapfile.ParseCurves(data)
		if err != nil {
			return
		}
		if v := s.Seconds(1.5, cost.Access{Bytes: 1, Rows: 2}); math.IsNaN(v) {
			t.Error("a time is no number")
		}
	})
}

// An expert of a small model is measured, and a size with more processors than there are is not.
func TestMeasure(t *testing.T) {
	if err := cpu.Check(); err != nil {
		t.Skip(err)
	}
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Model: m, Memory: []float64{gb / 2, gb, 2 * gb}, PerCPU: gb, Rows: []int{1, 3}, Cores: 1, Progress: func(string, ...any) {}}
	f, err := Measure(t.Context(), s)
	if err != nil || len(f.Points) != 6 || len(f.Fits) != 2 || f.Bytes <= 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i, p := range f.Points {
		if p.Seconds <= 0 || p.Extrapolated != (i >= 4) {
			t.Errorf("%+v", p)
		}
	}
	for want, spoil := range map[string]func(*Settings){
		"memory sizes must":  func(s *Settings) { s.Memory = []float64{2, 1} },
		"above 0 and ascend": func(s *Settings) { s.Memory = nil },
		"a processor has 0":  func(s *Settings) { s.PerCPU = 0 },
		"have 0.001 of a":    func(s *Settings) { s.PerCPU = 500 * gb },
		"rows are [2 1]":     func(s *Settings) { s.Rows = []int{2, 1} },
		"rows are [0]":       func(s *Settings) { s.Rows = []int{0} },
		"0 processors":       func(s *Settings) { s.Cores = 0 },
		"name smaller ones":  func(s *Settings) { s.Memory = []float64{3 * gb} },
	} {
		bad := s
		spoil(&bad)
		if _, err := Measure(t.Context(), bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
