package loads

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Steps of about the same rows are added up; what cannot be is left out.
func TestTimes(t *testing.T) {
	y := NewTimes(7, "attention-1")
	for _, took := range []Took{
		{Rows: 1, Dispatches: 2, Total: 100, Messages: 10}, {Rows: 1, Dispatches: 3, Total: 50, Messages: 90},
		{Rows: 64, Dispatches: 9, Total: 1000, Messages: 500},
		{Rows: 0, Total: 1}, {Rows: 1}, {Rows: 1, Total: 2 * time.Hour}, {Rows: 1, Total: 1, Dispatches: claims.MaxDispatches + 1}, {Rows: 1, Total: 1, Dispatches: -1},
	} {
		y.Add(3, took)
	}
	got := y.Take(TimesEvery)
	want := []*pb.LayerTime{
		{Steps: 2, Rows: 2, TotalNs: 150, MessageNs: 60, Dispatches: 5, Squares: 13, Products: 170},
		{Steps: 1, Rows: 64, TotalNs: 1000, MessageNs: 500, Dispatches: 9, Squares: 81, Products: 4500},
	}
	equal := func(a, b *pb.LayerTime) bool { return proto.Equal(a, b) }
	if len(got) != 1 || got[0].Layer != 3 || !slices.EqualFunc(got[0].Times, want, equal) || len(y.Take(TimesEvery)) > 0 {
		t.Errorf("%v", got)
	}
}

func TestClass(t *testing.T) {
	for rows, want := range map[float64]int{0: 0, 1: 0, 2: 2, 3: 3, 4: 4, 1 << 62: claims.Classes - 1} {
		if got := claims.Class(rows); got != want {
			t.Errorf("%v rows: class %d, want %d", rows, got, want)
		}
	}
}

// Requests that wait are told with each sample of their layer, and by themselves as long as
// some wait, and once when none does any more.
func TestWaiting(t *testing.T) {
	y := NewTimes(7, "attention-1")
	for _, step := range []struct {
		waiting int
		took    bool
		want    []uint64 // what the samples of layer 1 say
	}{
		{0, false, nil}, {5, false, []uint64{5}}, {5, true, []uint64{5}}, {0, false, []uint64{0}}, {0, false, nil}, {0, true, []uint64{0}},
		{claims.MaxWaiting + 1, false, []uint64{claims.MaxWaiting}}, {-1, false, []uint64{0}},
	} {
		y.Wait(1, step.waiting)
		if step.took {
			y.Add(1, Took{Rows: 1, Total: 1})
		}
		y.Add(2, Took{Rows: 1, Total: 1})
		var got []uint64
		for _, s := range y.Take(TimesEvery) {
			if err := limits.Check(s); err != nil || (s.Layer == 1) != (s.Waiting != nil) {
				t.Errorf("%+v: %v, %v", step, s, err)
			}
			if s.Waiting != nil {
				got = append(got, s.GetWaiting())
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%+v: told %v", step, got)
		}
	}
}
