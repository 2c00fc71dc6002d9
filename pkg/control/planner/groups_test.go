package planner

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A group that nobody joins is kept for as long as a plan has its function, also
// one that an earlier planner made.
func TestGroupsThatNobodyJoins(t *testing.T) {
	w := newWorld()
	p := New(Settings{Members: candidate{w, "a"}, Caller: candidate{w, "a"}, Plans: candidate{w, "a"}, Groups: candidate{w, "a"}, Model: testModel})
	layers := func(hosts ...string) (all []*pb.LayerPlan) {
		for _, l := range testModel.MoELayers {
			f := plan.Function(l, []uint32{0, 1, 2, 3}, "host-a")
			if l == 3 {
				f = plan.Function(l, f.Experts, hosts...)
			}
			all = append(all, &pb.LayerPlan{Layer: uint32(l), Functions: []*pb.Function{f}})
		}
		return all
	}
	begin := func() *tenure {
		t.Helper()
		one := &tenure{Planner: p, view: planstore.NewView(), kept: map[group]bool{}}
		if err := one.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		return one
	}
	keep := func(one *tenure, layers []*pb.LayerPlan, want ...string) {
		t.Helper()
		w.take()
		if err := one.keepGroups(context.Background(), layers); err != nil {
			t.Fatal(err)
		}
		if got := w.take(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	id := plan.FunctionID(3, []uint32{0, 1, 2, 3}, plan.Routed)
	kept, left := "group of function "+id+" of layer 3 kept: true", "group of function "+id+" of layer 3 kept: false"
	first := begin()
	keep(first, layers("host-a"))
	keep(first, layers(), kept)
	keep(first, layers())
	if _, _, err := (candidate{w, "a"}).Write(t.Context(), planstore.State{}, layers(), planstore.Writer{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	keep(begin(), layers(), kept) // it may have gone with its stream
	keep(begin(), layers("host-a"), left)
}

// Replicas whose records are gone are forgotten.
func TestSweepForgets(t *testing.T) {
	w := newWorld()
	c := candidate{w, "a"}
	one := &tenure{Planner: New(Settings{Members: c, Records: c}), gone: map[string]time.Time{}}
	for _, c := range []struct {
		records map[string][]string
		want    int
	}{
		{map[string][]string{"host-a": {"3.host-a"}, "host-b": {"3.host-b"}}, 2},
		{map[string][]string{"host-b": {"3.host-b"}}, 1},
		{nil, 0},
	} {
		w.records = c.records
		if one.sweep(t.Context(), time.Now()); len(one.gone) != c.want {
			t.Errorf("%d are waited for, want %d: %v", len(one.gone), c.want, one.gone)
		}
	}
}
