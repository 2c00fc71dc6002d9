package bursts

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// Device is what steps take, in seconds.
type Device struct {
	Fixed  float64 // of a step beside its experts
	Prompt float64 // of each prompt row beside its experts
	Call   float64 // of an access (separate), or of a layer's accesses together (fused)
	Read   float64 // of the weights of an expert
	Row    float64 // of a routed row, where it takes longer than reading
	Fused  bool
}

// A100s are four A100-PCIE-40GB with Qwen1.5-MoE-A2.7B, so that the authors' figures come out:
// 0.24 s a decode step of which 94 % are 24·60 accesses; 81 % of a prefill step, 0.31 s of a mean
// prompt (BrownoutServe, figures 1 and 11). Reading is 17.3 MB over four times 1.555 TB/s at four
// fifths, a row 17.3 MFLOP over four times 312 TFLOP/s at half (the data sheet's numbers; the
// shares are assumed). Fused, a layer's call takes as long as an access (assumed).
func A100s(fused bool) Device {
	const (
		step, share = 0.24, 0.94
		accesses    = 24 * 60
		bytes, ops  = 17.3e6, 17.3e6
		mean        = 1000 // prompt rows
	)
	d := Device{Read: bytes / (4 * 1.555e12 * 0.8), Row: ops / (4 * 312e12 * 0.5), Fixed: step * (1 - share), Fused: fused}
	d.Call = step*share/accesses - d.Read
	d.Prompt = (0.31*(1-0.8123) - d.Fixed) / mean
	return d
}

// Check says what is wrong with a device.
func (d Device) Check() error {
	for _, v := range []float64{d.Fixed, d.Prompt, d.Call, d.Read, d.Row} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("a device takes %+v; times are numbers of at least 0", d)
		}
	}
	return nil
}

// layer is what a layer's accesses take; rows are those of each.
func (d Device) layer(rows []int) (seconds float64) {
	for _, n := range rows {
		seconds += max(d.Read, float64(n)*d.Row)
		if !d.Fused {
			seconds += d.Call
		}
	}
	if d.Fused && len(rows) > 0 {
		seconds += d.Call
	}
	return seconds
}

// accesses appends the rows of each access of decisions that are made together, which may be one.
func accesses(rows []int, d []*brownout.Decision, count [][]int32) []int {
	experts := len(d[0].Fate)
	for e := range experts {
		n := 0
		for i := range d {
			if d[i].Fate[e].Itself() {
				n += int(count[i][e])
			}
		}
		if n > 0 {
			rows = append(rows, n)
		}
	}
	for first := 0; first < experts; first += d[0].Way {
		n := 0
		for i := range d {
			for e := first; e < min(first+d[0].Way, experts); e++ {
				if d[i].Fate[e] == brownout.United {
					n += int(count[i][e])
				}
			}
		}
		if n > 0 {
			rows = append(rows, n)
		}
	}
	return rows
}
