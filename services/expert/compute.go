package expert

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// computer computes dispatches of one function. It keeps its buffers; one
// goroutine uses it.
type computer struct {
	bank     *forward.Bank
	identity wire.Identity
	wire     forward.Wire
	d        int

	x, out  []float32
	scratch forward.BankScratch
	buf     []byte
}

// compute returns the partial of a dispatch: one weighted row per routed row,
// in the dispatch's order. It is valid until the next call.
func (c *computer) compute(d *pb.Dispatch) (*pb.Partial, error) {
	if err := c.check(d); err != nil {
		return nil, err
	}
	if err := wire.Decode(c.x, d.Tensor, c.d); err != nil {
		return nil, err
	}
	n := len(d.Expert)
	c.out = forward.Resize(c.out, n*c.d)
	routed := forward.Routed{Layer: int(d.Key.Layer), X: c.x, Source: d.Source, Expert: d.Expert, Weight: d.Weight}
	if err := c.bank.Compute(routed, c.out, &c.scratch); err != nil {
		return nil, fmt.Errorf("computing rows of function %s: %w", d.Function, err)
	}
	t := wire.Encode(c.wire, c.out, c.d, c.buf)
	c.buf = t.Data
	return &pb.Partial{Key: d.Key, TopK: d.TopK, Row: d.Row, Slot: d.Slot, Tensor: t}, nil
}

// maxTopK bounds what a message may claim, and so the memory that it takes.
const maxTopK = 256

// check refuses strangers and routing that points outside the message, and
// makes room for its rows.
func (c *computer) check(d *pb.Dispatch) error {
	if err := c.identity.CheckKey(d.Key); err != nil {
		return err
	}
	rows, err := wire.Rows(d.Tensor, c.d)
	if err != nil {
		return err
	}
	n := len(d.Expert)
	if n == 0 || len(d.Source) != n || len(d.Row) != n || len(d.Slot) != n || len(d.Weight) != n {
		return fmt.Errorf("%w: dispatch with %d experts, %d sources, %d rows, %d slots, %d weights",
			wire.ErrMalformed, n, len(d.Source), len(d.Row), len(d.Slot), len(d.Weight))
	}
	if n > rows*int(min(d.TopK, maxTopK)) {
		return fmt.Errorf("%w: dispatch of %d rows with %d routed rows, top-k %d", wire.ErrMalformed, rows, n, d.TopK)
	}
	for _, s := range d.Source {
		if int(s) >= rows {
			return fmt.Errorf("%w: dispatch of %d rows uses row %d", wire.ErrMalformed, rows, s)
		}
	}
	c.x = forward.Resize(c.x, rows*c.d)
	return nil
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
			Key: p.Key, TopK: p.TopK, Row: p.Row[from:to], Slot: p.Slot[from:to],
			Tensor: &pb.Tensor{
				Dtype: p.Tensor.Dtype, Rows: uint32(to - from), Cols: p.Tensor.Cols,
				Data: p.Tensor.Data[from*stride : to*stride],
			},
		})
	}
	return out
}
