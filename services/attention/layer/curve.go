package layer

import "slices"

// stepCurve adds up what gates tell of a step: how many experts would have rows at each of the
// thresholds that its stamp asks for. The collection's lock guards it.
type stepCurve struct {
	sum         []uint32
	parts, told int // of layers: those that are to tell, and that have
}

// take takes in what a part's gate has told; false: it cannot be of a layer with so many experts.
func (c *stepCurve) take(accesses []uint32, experts int) bool {
	n := len(accesses)
	if n == 0 {
		return true
	}
	if n > mostPoints || c.told > 0 && n != len(c.sum) || int(slices.Max(accesses)) > 2*experts {
		return false
	}
	if c.told == 0 {
		c.sum = append(c.sum[:0], make([]uint32, n)...)
	}
	for i, a := range accesses {
		c.sum[i] += a
	}
	c.told++
	return true
}

// whole is the sum; nil: some part is missing.
func (c *stepCurve) whole() []uint32 {
	if c.parts == 0 || c.told != c.parts {
		return nil
	}
	return slices.Clone(c.sum)
}

// mostPoints bounds the thresholds of which a gate tells.
const mostPoints = 101
