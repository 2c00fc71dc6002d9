package compute

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// outputs computes the rows of a partial and their places. A token row with several awaited slots, all of
// which are here, is summed; other rows go slot by slot. Sums
// are a fraction of the bytes. Their bits are those of the aggregator, which adds what the wire
// has rounded, in slot order.
func (c *Computer) outputs(d *pb.Dispatch, in forward.Routed) (places []uint32, out []float32, err error) {
	width, sums, rows := c.shape.Hidden, 0, len(in.X)/c.shape.Hidden
	if d.Key.RowSums {
		sums = c.findSums(d, in)
	}
	if sums > 0 && sums == rows { // a device may add them up itself
		c.out = reuse.Slice(c.out, rows*width)
		return c.place, c.out, forward.SumExperts(c.device, in, c.out, &c.scratch, c.wire, nil)
	}
	c.out = reuse.Slice(c.out, len(in.Expert)*width)
	if err := c.device.Compute(in, c.out, &c.scratch); err != nil {
		return nil, nil, err
	}
	if sums == 0 {
		return d.Place, c.out, nil
	}
	return c.place, c.addUp(), nil
}

// findSums lists what a partial has with as many sums as it can have: the place of each of its
// rows, and how many slots that is made of. It counts the sums.
func (c *Computer) findSums(d *pb.Dispatch, in forward.Routed) (sums int) {
	c.first, c.place, c.slots = in.FirstEntries(c.first), c.place[:0], c.slots[:0]
	for r, from := range c.first[:len(c.first)-1] {
		row, slots := c.shape.Row(d.Place[from]), d.Place[from:c.first[r+1]]
		if n := len(slots); n > 1 && n == wire.Awaits(d.Awaits).CountOf(row, c.shape.TopK) {
			c.place, c.slots = append(c.place, c.shape.SumPlace(int(d.Key.Rows), row)), append(c.slots, n)
			sums++
			continue
		}
		for _, place := range slots {
			c.place, c.slots = append(c.place, place), append(c.slots, 1)
		}
	}
	return sums
}

// addUp makes the rows that findSums has listed of the slots in out, in the memory of these.
func (c *Computer) addUp() (out []float32) {
	width, left := c.shape.Hidden, c.out
	out = c.out[:0]
	c.sum = reuse.Slice(c.sum, width)
	for _, n := range c.slots {
		row := left[:n*width]
		left = left[n*width:]
		if n > 1 {
			forward.SumRow(c.sum, row, c.wire)
			row = c.sum
		}
		out = append(out, row...)
	}
	return out
}
