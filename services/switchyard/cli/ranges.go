package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mostInRange is how many values a flag may name.
const mostInRange = 1000

// ranged returns numbers as a flag names them: FIRST:LAST:STEP, or a list with commas, as it stands.
func ranged(flag, text string) (all []float64, err error) {
	number := func(part string) float64 {
		v, wrong := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if wrong != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			err = Usage(fmt.Errorf("--%s is %q; name numbers as 200:2000:100 (first, last and step) or 200,300", flag, text))
		}
		return v
	}
	if parts := strings.Split(text, ":"); len(parts) > 1 {
		if len(parts) != 3 {
			return nil, Usage(fmt.Errorf("--%s is %q; a range has a first number, a last one and a step, as 200:2000:100", flag, text))
		}
		first, last, step := number(parts[0]), number(parts[1]), number(parts[2])
		if err != nil {
			return nil, err
		}
		if !(step > 0) || last < first || (last-first)/step >= mostInRange {
			return nil, Usage(fmt.Errorf("--%s is %q; the step must be above 0, the last number no less than the first, and there may be %d numbers", flag, text, mostInRange))
		}
		for i := range int((last-first)/step+1e-9) + 1 {
			all = append(all, first+float64(i)*step)
		}
		return all, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if all = append(all, number(part)); len(all) > mostInRange {
			return nil, Usage(fmt.Errorf("--%s names more than %d numbers", flag, mostInRange))
		}
	}
	return all, err
}

// Megabytes returns sizes of memory that a flag names in MB (2^20 bytes, as platforms count), in bytes;
// nil where it names none.
func Megabytes(flag, text string) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	all, err := ranged(flag, text)
	for i := range all {
		all[i] *= 1 << 20
	}
	return all, err
}
