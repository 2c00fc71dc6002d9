package sim

import (
	"strings"
	"testing"
)

// Two experts on two hosts, ten rows each in every iteration; host 1 goes before the second
// one, and is back before the fourth.
//
//	first: 10 rows a host, 20 ms and 20 ms there and back.
//	second: 3 s pass until it is known. Expert 1 is loaded on host 0, 1.25 s, whose 20
//	rows take 40 ms and 40 ms.
//	third and fourth: 20 rows on host 0, as nothing brings expert 1 back to host 1.
func TestFailure(t *testing.T) {
	m := tiny(1, 2)
	rows := []uint32{10, 10}
	s := settings(m, 2)
	s.Failures, s.Notice = []Failure{{Host: 1, At: 5, Back: 25}}, 3
	r := run(t, loads(t, m, rows, rows, rows, rows), s, policy("static"))
	if r.Rows != 80 || r.ColdStarts != 1 || r.Waits != 1 || !near(r.Elapsed, 30.08) || !near(r.Mean(), (0.04+1.33+0.08+0.08)/4) || !near(r.Peak, 2) {
		t.Errorf("%+v", r)
	}
	// Expert 0 is held all the time, expert 1 until 10 s and from 13 s on.
	if want := 30.08 + 10 + 17.08; !near(r.Resident, want) {
		t.Errorf("resident %v, want %v", r.Resident, want)
	}
}

// No policy loses a row to hosts that go, one after the other.
func TestFailures(t *testing.T) {
	m := tiny(2, 4)
	rows := []uint32{6, 2, 1, 1, 3, 0, 9, 1}
	w := loads(t, m, rows, rows, rows, rows, rows)
	for _, p := range Policies() {
		s := settings(m, 3)
		s.Failures = []Failure{{Host: 0, At: 5, Back: 15}, {Host: 2, At: 18}, {Host: 0, At: 35}}
		if r := run(t, w, s, p); r.Rows != 5*23 {
			t.Errorf("%s: %d rows of %d", p.Name, r.Rows, 5*23)
		}
	}
}

func TestFailuresRefused(t *testing.T) {
	m := tiny(1, 4)
	for _, tc := range []struct {
		name string
		f    Failure
		want string
	}{
		{"host", Failure{Host: 2}, "failure 0 is of host 2; hosts are 0 to 1"},
		{"back", Failure{At: 5, Back: 4}, "from 5 to 4 s"},
		{"early", Failure{At: -1}, "from -1 to 0 s"},
	} {
		s := settings(m, 2)
		s.Failures = []Failure{tc.f}
		if _, err := Run(loads(t, m), s, policy("static")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	s := settings(m, 2)
	s.Failures = []Failure{{Host: 0}, {Host: 1}}
	if _, err := Run(loads(t, m, []uint32{1, 1, 1, 1}), s, policy("static")); err == nil || !strings.Contains(err.Error(), "all 2 are gone") {
		t.Errorf("all hosts gone: %v", err)
	}
}
