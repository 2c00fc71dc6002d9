package chaos

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/check"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

const ms = time.Millisecond

// run has a kill at 1 s, a skipped one at 1.4 s, and a partition at 5 s.
func run() *Run {
	hit := func(k schedule.Kind, service string, began, back time.Duration) Hit {
		return Hit{Fault: schedule.Fault{At: time.Second, For: time.Second, Kind: k, Target: schedule.Target{Service: service}}, Began: began, Back: back, Reissues: 2}
	}
	skipped := hit(schedule.Hang, "gate", 1400*ms, 0)
	skipped.Skipped = true
	stall := func(from, to time.Duration) check.Stall { return check.Stall{Request: "a", From: from, To: to} }
	return &Run{
		Title: "a run", Counted: true,
		Hits: []Hit{hit(schedule.Kill, "gate", 1000*ms, 1500*ms), skipped, hit(schedule.Partition, "expert", 5000*ms, 9000*ms)},
		Load: asking.Result{
			Ends:  map[string]int{check.Whole: 2},
			Spans: []asking.Span{{Worker: 0, Request: "a", To: 10 * time.Second, Stall: 1500 * ms}, {Worker: 1, Request: "b", To: 10 * time.Second}},
			Stalls: []check.Stall{
				stall(980*ms, 1300*ms), stall(1450*ms, 2950*ms), // of the kill
				{Request: "b", From: 1100 * ms, To: 1800 * ms, First: true},
				stall(400*ms, 900*ms),       // before all faults
				stall(5100*ms, 5500*ms),     // of the partition
				stall(30*1000*ms, 40000*ms), // long after it
			},
		},
	}
}

func TestAttribute(t *testing.T) {
	r := run()
	r.Attribute()
	for i, want := range []time.Duration{1500 * ms, 0, 400 * ms} {
		if got := r.Hits[i].Stall; got != want {
			t.Errorf("fault %d stalls %v, want %v", i, got, want)
		}
	}
	rows := r.Rows(ByService)
	two := 2.0
	want := Row{Name: "kill gate", Count: 1, P50: 1.5, P99: 1.5, Max: 1.5, First: 0.7, Reissues: &two}
	if len(rows) != 2 || !reflect.DeepEqual(rows[0], want) || rows[1].Name != "partition expert" {
		t.Errorf("got %+v", rows)
	}
}

// What was sent again is a number only where it was counted.
func TestReissues(t *testing.T) {
	for _, tc := range []struct {
		name       string
		counted    bool
		text, json string
	}{
		{"counted", true, " 2\n", `"reissues": 2`},
		{"not counted", false, " not read\n", `"reissues": null`},
	} {
		r := run()
		r.Counted = tc.counted
		body, err := r.JSON()
		if table := r.Table(ByKind); err != nil || !strings.Contains(table, tc.text) || !strings.Contains(string(body), tc.json) {
			t.Errorf("%s: %v\n%s\n%s", tc.name, err, table, body)
		}
	}
}

func TestTable(t *testing.T) {
	r := run()
	r.Load.Violations = []check.Violation{{At: 3 * time.Second, Request: "b", What: check.Lost, Detail: "index 3"}, {At: 2 * time.Second, Request: "a", What: check.Changed}}
	r.Left = []string{"pages"}
	got := r.Table(ByKind)
	for _, want := range []string{"a run: 2 faults, 2 requests", "lost 1, duplicated 0, changed 1", "kill       1", "b: lost: index 3", "still held at the end: pages", "1.50 s between two tokens of a from 1.45s (1s kill gate/0 1s"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if !r.Failed() {
		t.Error("it has not failed")
	}
}

// What is wrong with a request is told once, however many of its tokens it changes.
func TestViolations(t *testing.T) {
	r := &Run{}
	for i := range 3 {
		r.Load.Violations = append(r.Load.Violations,
			check.Violation{At: time.Duration(i) * time.Second, Request: "a", What: check.Changed, Detail: "x"},
			check.Violation{At: time.Duration(i) * time.Second, Request: string(rune('a' + i)), What: check.Lost, Detail: "y"})
	}
	want := "0s a: changed: x (and 2 more)\n0s a: lost: y\n1s b: lost: y\n2s c: lost: y\n"
	if got := r.violations(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	body, err := run().JSON()
	var s Summary
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil || s.Faults != 2 || s.Requests != 2 || s.RequestMax != 1.5 || len(s.Kinds) != 2 {
		t.Errorf("got %+v: %v", s, err)
	}
}

func TestNothing(t *testing.T) {
	r := &Run{}
	if r.Attribute(); r.Failed() || r.Table(ByKind) == "" {
		t.Error("nothing happened, and it failed")
	}
}

// The picture is XML with a line for each kind and worker.
func TestTimeline(t *testing.T) {
	body, err := run().Timeline()
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(body)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"partition", "worker 0", "worker 1"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("there is no %q", want)
		}
	}
}
