package batching

import (
	"slices"
	"testing"
)

// What prompts may have beside answers: they go with these, wait for them, and are bounded by what their rows
// have taken.
func TestBeside(t *testing.T) {
	p := Policy{Microbatches: 2, MinRows: 8, MaxRows: 256, MinPrefill: 8, Beside: 0.5, LeastBeside: 4}
	ready := []Item{{}, {Prefill: 500}, {}}
	seconds := func(int) float64 { return 0.004 }
	for _, tc := range []struct {
		name string
		pace Pace
		want []Take
	}{
		{"nothing is known", Pace{}, []Take{{0, 1}, {2, 1}, {1, 4}}},
		{"cheap rows are twice as many each time", Pace{Seconds: seconds, beside: beside{newest: 8}}, []Take{{0, 1}, {2, 1}, {1, 16}}},
		{"half of the step's time", Pace{Seconds: seconds, beside: beside{newest: 64, each: cost{1, 0.0001}}}, []Take{{0, 1}, {2, 1}, {1, 20}}},
		{"dear rows", Pace{Seconds: seconds, beside: beside{newest: 64, each: cost{1, 1}}}, []Take{{0, 1}, {2, 1}, {1, 4}}},
		{"a step alone now and then", Pace{Seconds: seconds, beside: beside{newest: 64, run: mostRun}}, []Take{{0, 1}, {2, 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := p.Next(ready, 2, &tc.pace, nil); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if got := p.Next([]Item{{Prefill: 500}}, 2, &Pace{}, nil); len(got) > 0 {
		t.Errorf("prompts go alone while answers are in flight: %v", got)
	}
	if got := p.Next([]Item{{Prefill: 500}}, 0, &Pace{}, nil); len(got) != 1 || got[0].Rows < 8 {
		t.Errorf("prompts without answers: %v", got)
	}
}

// However dear a prompt's rows are and whatever else a step takes, their pieces come to lengthen steps by the part that they may.
func TestPieceConverges(t *testing.T) {
	for _, tc := range []struct {
		name        string
		alone, row  float64
		least, most int // rows of a piece in the end
	}{
		{"demo", 0.004, 0.00012, 10, 17},
		{"free rows", 0.004, 0, 256, 256},
		{"dear rows", 0.004, 0.1, 4, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Policy{Microbatches: 1, MinRows: 8, MaxRows: 264, Beside: 0.5, LeastBeside: 4}
			pace := Pace{Seconds: func(int) float64 { return tc.alone }}
			ready, newest, alone := make([]Item, 9), 0, 0
			ready[8].Prefill = 1 << 20
			for range 100 {
				takes := p.Next(ready, 8, &pace, nil)
				if len(takes) == 8 {
					pace.Alone()
					alone++
					continue
				}
				newest = takes[8].Rows
				pace.Beside(newest, tc.alone+tc.row*float64(newest), tc.alone)
			}
			if newest < tc.least || newest > tc.most || alone < 5 {
				t.Errorf("pieces of %d rows, want %d to %d; %d steps alone", newest, tc.least, tc.most, alone)
			}
		})
	}
}
