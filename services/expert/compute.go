package expert

import (
	"fmt"
	"runtime"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// computer computes dispatches. It keeps its buffers; one goroutine at a time
// uses it.
type computer struct {
	device device.Device
	shape  *wire.Shape
	wire   tensor.Wire

	x, out  []float32
	scratch forward.ExpertScratch
	buf     []byte
}

// computers are shared by a host's functions: they are as many as compute at
// the same time, and a wide dispatch's buffers are not kept for each function.
type computers struct {
	idle chan *computer
	make func() *computer
}

func newComputers(make1 func() *computer) computers {
	return computers{make(chan *computer, runtime.GOMAXPROCS(0)), make1}
}

func (c computers) take() *computer {
	select {
	case one := <-c.idle:
		return one
	default:
		return c.make()
	}
}

func (c computers) give(one *computer) {
	select {
	case c.idle <- one:
	default: // as many as can compute at once are idle already
	}
}

// compute returns the partial of a dispatch: one weighted row per routed row,
// in the dispatch's order. It is valid until the next call.
func (c *computer) compute(d *pb.Dispatch) (*pb.Partial, error) {
	rows, err := c.shape.CheckDispatch(d)
	if err != nil {
		return nil, err
	}
	width := c.shape.Hidden
	c.x = tensor.Resize(c.x, rows*width)
	if err := tensor.Decode(c.x, d.Tensor, width); err != nil {
		return nil, err
	}
	c.out = tensor.Resize(c.out, len(d.Expert)*width)
	routed := forward.Routed{Layer: int(d.Key.Layer), X: c.x, Source: d.Source, Expert: d.Expert, Weight: d.Weight}
	if err := c.device.Compute(routed, c.out, &c.scratch); err != nil {
		return nil, fmt.Errorf("computing rows of function %s: %w", d.Function, err)
	}
	t := tensor.Encode(c.wire, c.out, width, c.buf)
	c.buf = t.Data
	return &pb.Partial{Key: d.Key, TopK: d.TopK, Row: d.Row, Slot: d.Slot, Tensor: t, Awaits: d.Awaits}, nil
}

// cut makes several partials of one that is over the payload limit.
func cut(p *pb.Partial, maxRows int) []*pb.Partial {
	n := len(p.Row)
	if n <= maxRows {
		return []*pb.Partial{p}
	}
	stride := len(p.Tensor.Data) / n
	var out []*pb.Partial
	for from := 0; from < n; from += maxRows {
		to := min(from+maxRows, n)
		out = append(out, &pb.Partial{
			Key: p.Key, TopK: p.TopK, Row: p.Row[from:to], Slot: p.Slot[from:to], Awaits: p.Awaits,
			Tensor: &pb.Tensor{
				Dtype: p.Tensor.Dtype, Rows: uint32(to - from), Cols: p.Tensor.Cols,
				Data: p.Tensor.Data[from*stride : to*stride],
			},
		})
	}
	return out
}
