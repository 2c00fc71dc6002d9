package attention

import (
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

func browned(change func(*BrownoutFlags)) BrownoutFlags {
	f := BrownoutFlags{Brownout: "full", Way: 8, SLOPrefill: 250 * time.Millisecond, SLODecode: 150 * time.Millisecond, MaxLoss: "5%"}
	change(&f)
	return f
}

// What cannot be is refused by the flag's name, with what to do.
func TestBrownoutFlags(t *testing.T) {
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*BrownoutFlags)
		folder string
		want   string // empty: nothing is wrong
	}{
		{"full", func(*BrownoutFlags) {}, "", ""},
		{"off, whatever else", func(f *BrownoutFlags) { f.Brownout, f.SLODecode, f.Exempt = "off", 0, []int{99} }, "", ""},
		{"no objective of prefill", func(f *BrownoutFlags) { f.SLOPrefill = 0 }, "", "--slo-prefill is 0s; it must be above 0"},
		{"a negative one of decode", func(f *BrownoutFlags) { f.SLODecode = -time.Second }, "", "--slo-decode is -1s"},
		{"another word", func(f *BrownoutFlags) { f.Brownout = "half" }, "", `there is no strategy "half"`},
		{"way 1", func(f *BrownoutFlags) { f.Brownout, f.Way = "partial", 1 }, "x", "--way is 1; a united expert stands in for at least 2"},
		{"more than there are", func(f *BrownoutFlags) { f.Brownout, f.Way = "partial", 99 }, "x", "--way: "},
		{"no folder", func(f *BrownoutFlags) { f.Brownout = "partial" }, "", "--united: a folder of united experts, which switchyard distill makes"},
		{"a folder without them", func(f *BrownoutFlags) { f.Brownout, f.Way = "partial", 2 }, "nowhere", "--united: "},
		{"a layer that there is not", func(f *BrownoutFlags) { f.Exempt = []int{99} }, "", "--exempt names layer 99"},
		{"no loss", func(f *BrownoutFlags) { f.MaxLoss = "0%" }, "", `--max-loss is "0%"; it must be above 0% and at most 100%`},
		{"too much loss", func(f *BrownoutFlags) { f.MaxLoss = "101%" }, "", "--max-loss"},
		{"no number", func(f *BrownoutFlags) { f.MaxLoss = "NaN" }, "", "--max-loss"},
		{"a word of loss", func(f *BrownoutFlags) { f.MaxLoss = "little" }, "", `--max-loss is "little"`},
	} {
		b, err := browned(tc.change).config(tc.folder)
		if err == nil {
			err = b.Check(m)
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	b, err := browned(func(f *BrownoutFlags) { f.MaxLoss, f.Exempt, f.BrownoutBy = "0.05", []int{3, 1}, "predictive" }).config("")
	if err != nil || b.Strategy != brownout.Full || b.MaxLoss != 0.05 || b.Exempt[0] != 1 || !b.Predictive || b.Paper {
		t.Errorf("%+v, %v", b, err)
	}
}
