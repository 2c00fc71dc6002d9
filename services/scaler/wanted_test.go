package scaler

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// busy are hosts that have computed for these seconds so far.
func busy(seconds ...float64) (all []*pb.Member) {
	for i, s := range seconds {
		all = append(all, &pb.Member{Id: fmt.Sprint("expert-", i), Stats: map[string]float64{members.HostSeconds: s}})
	}
	return all
}

func TestWanted(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now []float64 // ten seconds apart
		want        int
	}{
		"idle":         {[]float64{5, 5}, []float64{5, 5}, 1},
		"as aimed":     {[]float64{0, 0}, []float64{7, 7}, 2},
		"busy":         {[]float64{0, 0}, []float64{10, 10}, 3},
		"half idle":    {[]float64{0, 0, 0, 0}, []float64{4, 3, 3, 3}, 2},
		"a new one":    {[]float64{0}, []float64{7, 9}, 1},
		"a liar":       {[]float64{0, 0}, []float64{1e9, 7}, 3},
		"a begun anew": {[]float64{100, 0}, []float64{1, 7}, 1},
		"no number":    {[]float64{0, 0}, []float64{math.NaN(), math.Inf(1)}, 1},
		"none":         {nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var w work
			w.look(100, busy(tc.before...))
			if w.known {
				t.Error("known after one look")
			}
			w.look(110, busy(tc.now...))
			if got := w.wanted(); got != tc.want || !w.known {
				t.Errorf("%d wanted (known: %v), want %d", got, w.known, tc.want)
			}
		})
	}
}

// Work is averaged: what there is for a moment changes nothing, and what stays does.
func TestWantedIsSmooth(t *testing.T) {
	var w work
	w.look(0, busy(0))
	w.look(10, busy(1))
	w.look(11, busy(2))
	if got := w.wanted(); got != 1 {
		t.Errorf("%d wanted after a busy second", got)
	}
	for i := range 200 {
		w.look(float64(12+i), busy(float64(3+i)))
	}
	if got := w.wanted(); got != 2 {
		t.Errorf("%d wanted of a host that is busy all the time", got)
	}
}

// All experts are to fit, whatever there is to do.
func TestWantedHolds(t *testing.T) {
	model := plan.Model{MoELayers: []int{0, 1}, Experts: 8, ExpertBytes: 10}
	for name, tc := range map[string]struct {
		hosts []plan.Host
		want  int
	}{
		"no bounds": {[]plan.Host{{ID: "a"}, {ID: "b", Budget: 40}}, 1},
		"bounds":    {[]plan.Host{{ID: "a", Budget: 59}, {ID: "b", Budget: 90}}, 4},
		"too small": {[]plan.Host{{ID: "a", Budget: 9}}, 1},
		"none":      {nil, 1},
	} {
		var w work
		if w.holds(plan.Known{Model: model, Hosts: tc.hosts}); w.wanted() != tc.want {
			t.Errorf("%s: %d, want %d", name, w.wanted(), tc.want)
		}
	}
}
