package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const byHour = "hour,requests,sessions\n4,38,1\n5,0,0\n6,2,2\n"

func TestReadHours(t *testing.T) {
	h, err := ReadHours(strings.NewReader(byHour))
	if err != nil || !slices.Equal(h, Hours{38, 0, 2}) {
		t.Errorf("%v, %v", h, err)
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"column", "requests", "calls", "line 1 of the trace: there is no column requests; a trace has hour, requests"},
		{"gap", "5,0,0\n", "", "line 3 of the trace: it is of hour 6, and 5 is next; hours ascend by one, and one without requests has 0"},
		{"back", "5,0", "3,0", "line 3 of the trace: it is of hour 3, and 5 is next"},
		{"empty line", "5,0,0", "", "line 3 of the trace: it is empty, and others follow; leave it out"},
		{"negative", "38", "-38", `line 2 of the trace: requests is "-38"; it must be a whole number from 0`},
		{"many", "38", "5000000", `line 2 of the trace: requests is "5000000"`},
		{"many together", "38", "4194303", "line 4 of the trace: a trace has at most 4194304 requests; cut it"},
		{"short", "6,2,2", "6", "line 4 of the trace: there is no requests; it has 1 fields"},
		{"none", byHour, "hour,requests\n0,0\n", "the trace has no hour with requests; name another one"},
		{"empty", byHour, "", "line 1 of the trace: the trace is empty"},
	} {
		_, err := ReadHours(strings.NewReader(strings.Replace(byHour, tc.from, tc.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Requests ascend from 0, have the lengths in order, are of their hours, and as many in
// each as its rate says: within six deviations of a Poisson process.
func TestDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Hours(rapid.SliceOfN(rapid.IntRange(0, 2000), 1, 6).Draw(t, "hours"))
		lengths := []Request{{9, 1, 2}, {9, 3, 4}, {9, 5, 6}}[:rapid.IntRange(0, 3).Draw(t, "lengths")]
		seed := rapid.Uint64().Draw(t, "seed")
		rs := h.Requests(lengths, seed)
		if fmt.Sprint(rs) != fmt.Sprint(h.Requests(lengths, seed)) {
			t.Fatal("the same seed draws others")
		}
		if len(lengths) == 0 {
			if rs != nil {
				t.Fatal("requests without lengths")
			}
			return
		}
		want, last := 0.0, time.Duration(0)
		for _, n := range h {
			want += float64(n)
		}
		for i, r := range rs {
			if of := lengths[i%len(lengths)]; r.At < last || r.Context != of.Context || r.Generated != of.Generated || i == 0 && r.At != 0 {
				t.Fatalf("request %d is %+v, after %v", i, r, last)
			}
			last = r.At
		}
		if got := float64(len(rs)); math.Abs(got-want) > 6*math.Sqrt(want)+1 || last >= time.Duration(len(h))*time.Hour {
			t.Fatalf("%v requests for %v, until %v", got, want, last)
		}
	})
}

// Rates are by hour: what comes in the third of three is of its rate alone.
func TestDrawnByHour(t *testing.T) {
	rs := Hours{4000, 0, 1000, 250}.Requests([]Request{{Context: 1, Generated: 1}}, 7)
	for hour, want := range []float64{4000, 0, 1000, 250} {
		from := time.Duration(hour) * time.Hour
		if got := float64(len(Slice(rs, from, from+time.Hour))); math.Abs(got-want) > 4*math.Sqrt(want)+1 {
			t.Errorf("hour %d has %v requests, want about %v", hour, got, want)
		}
	}
}

// FuzzReadHours wants an error or hours that requests can be drawn of.
func FuzzReadHours(f *testing.F) {
	f.Add(byHour)
	f.Add("\ufeffrequests,hour\r\n1,99\r\n")
	f.Add("hour,requests\n9223372036854775807,1\n")
	f.Fuzz(func(t *testing.T, data string) {
		h, err := ReadHours(strings.NewReader(data))
		if err != nil {
			return
		}
		sum := 0
		for _, n := range h {
			if n < 0 {
				t.Fatalf("%v", h)
			}
			sum += n
		}
		if sum == 0 || sum > mostRequests || len(h) > mostHours {
			t.Fatalf("%d requests in %d hours", sum, len(h))
		}
	})
}
