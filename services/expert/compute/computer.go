package compute

import (
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Computer computes dispatches on a device. It keeps its buffers, so one goroutine at a time
// uses it.
type Computer struct {
	device device.Device
	shape  *wire.Shape
	wire   tensor.Wire
	united Numbers

	units  []uint32 // of a dispatch of united experts, as the device names them
	x, out []float32
	source []uint32 // the tensor's row of each routed row
	first  []int32  // the first routed row of each token row
	// Of each row of a partial with sums, its place and how many slots it is the sum of.
	place   []uint32
	slots   []int
	sum     []float32 // one of them
	scratch forward.ExpertScratch
	buf     []byte
	use     device.Use
	took    []float32 // of memory, by place of the partial
}

// Compute returns the partial of a dispatch: one weighted row per routed row,
// in the dispatch's order, or if the aggregator takes row sums, the sums of the rows that are
// here as a whole. It is valid until the next call. The partial carries
// took, to which Compute adds its own time.
func (c *Computer) Compute(d *pb.Dispatch, took *pb.FunctionTime) (*pb.Partial, error) {
	watch := ledger.StartAt(time.Now())
	rows, err := c.shape.CheckDispatch(d)
	if err != nil {
		return nil, err
	}
	units, err := c.unitsOf(d)
	if err != nil {
		return nil, err
	}
	width := c.shape.Hidden
	c.x = reuse.Slice(c.x, rows*width)
	if err := tensor.Decode(c.x, d.Tensor, width); err != nil {
		return nil, err
	}
	routed := forward.Routed{Layer: int(d.Key.Layer), X: c.x, Source: c.sources(d.Place), Expert: units, Weight: d.Weight}
	took.TransferNs += watch.Lap()
	c.device.Begin(&c.use, routed.Layer, routed.Expert, time.Duration(took.QueueNs+took.StallNs+took.TransferNs))
	places, out, err := c.outputs(d, routed)
	c.device.End(&c.use)
	if err != nil {
		return nil, fmt.Errorf("computing rows of layer %d: %w", d.Key.Layer, err)
	}
	took.Rows, took.ComputeNs = uint32(len(d.Expert)), watch.Lap()
	t := tensor.Encode(c.wire, out, width, c.buf)
	c.buf = t.Data
	took.TransferNs += watch.Lap()
	return &pb.Partial{
		Key: d.Key, Place: places, Tensor: t, Awaits: d.Awaits, Gate: d.Gate, Function: took, Fates: d.Fates, Decision: d.Decision, ByteSeconds: c.shares(len(places)),
	}, nil
}

// unitsOf are a dispatch's experts as the device names them.
func (c *Computer) unitsOf(d *pb.Dispatch) ([]uint32, error) {
	if d.Kind != plan.United {
		return d.Expert, nil
	}
	c.units = c.units[:0]
	for _, g := range d.Expert {
		number, ok := 0, false
		if c.united != nil {
			number, ok = c.united.Number(int(d.Key.Layer), int(d.Way), int(g))
		}
		if !ok {
			return nil, &UnitError{d.Function, fmt.Sprintf("this host has no weights of united expert %d of way %d of layer %d", g, d.Way, d.Key.Layer)}
		}
		c.units = append(c.units, uint32(number))
	}
	return c.units, nil
}

// sources are the tensor's rows of places, which ascend.
func (c *Computer) sources(places []uint32) []uint32 {
	c.source = c.source[:0]
	at := uint32(0)
	for i, place := range places {
		if i > 0 && c.shape.Row(place) != c.shape.Row(places[i-1]) {
			at++
		}
		c.source = append(c.source, at)
	}
	return c.source
}

// shares is what each of so many places took of memory: the routed rows that it is the sum of.
func (c *Computer) shares(places int) []float32 {
	c.took = reuse.Slice(c.took, places)
	entries := c.use.Entries()
	for i, at := 0, 0; i < places; i++ {
		n, sum := 1, 0.0
		if places < entries {
			n = c.slots[i]
		}
		for ; n > 0; n-- {
			sum += c.use.Took(at)
			at++
		}
		c.took[i] = float32(sum)
	}
	return c.took
}
