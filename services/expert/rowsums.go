package expert

import (
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sums returns the rows of a partial and their places: of each token row of which the
// dispatch has all awaited slots, several, their sum, and else the slots as they are. That is
// a fraction of the bytes. The bits are those of the aggregator,
// which adds what the wire has rounded, in slot order.
func (c *computer) sums(d *pb.Dispatch) (places []uint32, out []float32) {
	if !d.Key.RowSums {
		return d.Place, c.out
	}
	width, awaits := c.shape.Hidden, wire.Awaits(d.Awaits)
	c.place, out = c.place[:0], c.out[:0]
	for from := 0; from < len(d.Place); {
		row, to := c.shape.Row(d.Place[from]), from+1
		for to < len(d.Place) && c.shape.Row(d.Place[to]) == row {
			to++
		}
		slots := c.out[from*width : to*width]
		if n := to - from; n > 1 && n == awaits.CountOf(row, c.shape.TopK) {
			c.wire.Round(slots)
			c.sum = tensor.Resize(c.sum, width)
			forward.Combine(c.sum, slots, nil, n, width)
			c.place, out = append(c.place, c.shape.SumPlace(int(d.Key.Rows), row)), append(out, c.sum...)
		} else {
			c.place, out = append(c.place, d.Place[from:to]...), append(out, slots...)
		}
		from = to
	}
	return c.place, out
}
