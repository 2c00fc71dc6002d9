package sim

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

var skewed = routing.Params{Layers: []routing.Layer{{Common: 0.4, Domain: 0.5, Topic: 0.2, Neighbour: 0.1, Layer: 0.2}}}

func workload(t testing.TB, rs []trace.Request, s routing.Shape, p routing.Params, r Replay) *Workload {
	g, err := routing.New(s, p, r.Domains, r.Seed)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Workload(rs, g)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var hourly = Replay{PerSecond: 2, Domains: 5, Cycle: time.Hour, Seed: 1}

// The requests of a second are one batch: their prompts go together when the
// second is over, and then a token of each in every iteration.
func TestReplay(t *testing.T) {
	rs := []trace.Request{{At: 0, Context: 5, Generated: 3}, {At: 999 * time.Millisecond, Context: 2, Generated: 1}, {At: 3 * time.Second, Context: 4, Generated: 2}}
	w := workload(t, rs, routing.Shape{Layers: 2, Experts: 4, TopK: 2}, skewed, hourly)
	want := []Iteration{{1, 7, 0}, {1.5, 1, 0}, {2, 1, 0}, {4, 4, 0}, {4.5, 1, 0}}
	if !reflect.DeepEqual(w.Iterations, want) {
		t.Errorf("%v, want %v", w.Iterations, want)
	}
}

// Each row is routed to top-k experts in every layer, and the same seed routes it
// the same way, however many threads do it.
func TestReplayed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []trace.Request
		for i := range rapid.IntRange(0, 8).Draw(t, "requests") {
			rs = append(rs, trace.Request{
				At:      time.Duration(i) * rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "pause")) }).Draw(t, "at"),
				Context: rapid.IntRange(0, 50).Draw(t, "context"), Generated: rapid.IntRange(0, 9).Draw(t, "generated"),
			})
		}
		s := routing.Shape{Layers: 3, Experts: 6, TopK: rapid.IntRange(1, 3).Draw(t, "top-k")}
		g, err := routing.New(s, skewed, 5, 7)
		if err != nil {
			t.Fatal(err)
		}
		w, err := hourly.Workload(rs, g)
		if err != nil {
			t.Fatal(err)
		}
		for i, it := range w.Iterations {
			for l := range s.Layers {
				sum := 0
				for _, n := range w.Loads(i, l) {
					sum += int(n)
				}
				if sum != it.Rows*s.TopK {
					t.Fatalf("iteration %d has %d rows and layer %d %d choices", i, it.Rows, l, sum)
				}
			}
		}
		if again, err := hourly.Workload(rs, g); err != nil || !reflect.DeepEqual(w, again) {
			t.Fatal("the same seed gives other loads")
		}
	})
}

// Over a cycle each domain has its time, and over all of it the same share.
func TestDomains(t *testing.T) {
	var total [5]int
	for part := range 5 {
		var n [5]int
		for i := range 1000 {
			at := time.Duration(part)*12*time.Minute + time.Duration(i)*12*time.Minute/1000
			n[hourly.Domain(at, uint64(part*1000+i))]++
		}
		if n[part] < 600 {
			t.Errorf("part %d of the cycle has domains %v", part, n)
		}
		for d := range n {
			total[d] += n[d]
		}
	}
	for _, n := range total {
		if n < 900 || n > 1100 {
			t.Errorf("domains of the whole cycle: %v", total)
		}
	}
}

func TestTooLarge(t *testing.T) {
	rs := []trace.Request{{Generated: 1 << 20}}
	g, err := routing.New(routing.Shape{Layers: 58, Experts: 256, TopK: 8}, skewed, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hourly.Workload(rs, g); err == nil || !strings.Contains(err.Error(), "shorter slice") {
		t.Errorf("%v", err)
	}
	if _, err := (Replay{}).Workload(rs, g); err == nil || !strings.Contains(err.Error(), "0 iterations a second") {
		t.Errorf("%v", err)
	}
}

// What waits behind an iteration are those that are due.
func TestWaiting(t *testing.T) {
	w, err := NewWorkload(routing.Shape{Layers: 1, Experts: 1, TopK: 1}, []Iteration{{Due: 0}, {Due: 1}, {Due: 2}, {Due: 3}})
	if err != nil {
		t.Fatal(err)
	}
	r := &replayed{Workload: w}
	var got []int
	for _, now := range []float64{0, 2.5, 2.6, 9} {
		it, _ := r.Next(now)
		got = append(got, it.Waiting)
	}
	if want := []int{0, 1, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v wait, want %v", got, want)
	}
}
