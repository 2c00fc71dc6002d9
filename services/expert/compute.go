package expert

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// computer computes dispatches. It keeps its buffers; one goroutine at a time
// uses it.
type computer struct {
	device device.Device
	shape  *wire.Shape
	wire   tensor.Wire

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

// computers are shared by a host's functions: they are as many as compute at
// the same time, and a wide dispatch's buffers are not kept for each function.
type computers struct {
	idle chan *computer
	make func() *computer

	mu   sync.Mutex
	busy map[*computer]time.Time // since when
	// worked is the time in which any was busy, but for the one since began.
	worked time.Duration
	began  time.Time // when the first of those that are busy was taken
}

func newComputers(make1 func() *computer) *computers {
	return &computers{idle: make(chan *computer, runtime.GOMAXPROCS(0)), make: make1, busy: map[*computer]time.Time{}}
}

// take returns a computer that is busy from now on, until it is given back.
func (c *computers) take(now time.Time) (one *computer) {
	select {
	case one = <-c.idle:
	default:
		one = c.make()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) == 0 {
		c.began = now
	}
	c.busy[one] = now
	return one
}

// total is the time in which any was busy: two at once count once, so that it tells
// how fast the host is, however much it has to do.
func (c *computers) total(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) == 0 {
		return c.worked
	}
	return c.worked + now.Sub(c.began)
}

// longest is how long the one has been busy that was taken first.
func (c *computers) longest(now time.Time) (d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, since := range c.busy {
		d = max(d, now.Sub(since))
	}
	return d
}

func (c *computers) give(one *computer) {
	c.mu.Lock()
	if delete(c.busy, one); len(c.busy) == 0 {
		c.worked += time.Since(c.began)
	}
	c.mu.Unlock()
	select {
	case c.idle <- one:
	default: // as many as can compute at once are idle already
	}
}

// compute returns the partial of a dispatch: one weighted row per routed row,
// in the dispatch's order, or if the aggregator takes row sums, the sums of the rows that are
// here as a whole. It is valid until the next call. The partial carries
// took, to which compute adds its own time.
func (c *computer) compute(d *pb.Dispatch, took *pb.FunctionTime) (*pb.Partial, error) {
	watch := ledger.StartAt(time.Now())
	rows, err := c.shape.CheckDispatch(d)
	if err != nil {
		return nil, err
	}
	if d.Kind == plan.United {
		return nil, &UnitError{d.Function, fmt.Sprintf("this host has no weights of united experts of way %d", d.Way)}
	}
	width := c.shape.Hidden
	c.x = tensor.Resize(c.x, rows*width)
	if err := tensor.Decode(c.x, d.Tensor, width); err != nil {
		return nil, err
	}
	routed := forward.Routed{Layer: int(d.Key.Layer), X: c.x, Source: c.sources(d.Place), Expert: d.Expert, Weight: d.Weight}
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
		Key: d.Key, Place: places, Tensor: t, Awaits: d.Awaits, Gate: d.Gate, Function: took, Fates: d.Fates, ByteSeconds: c.shares(len(places)),
	}, nil
}

// sources are the tensor's rows of places, which ascend.
func (c *computer) sources(places []uint32) []uint32 {
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
func (c *computer) shares(places int) []float32 {
	c.took = tensor.Resize(c.took, places)
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

// coldRows are the token rows of places, which ascend.
func coldRows(shape *wire.Shape, places []uint32) (rows []uint32) {
	for _, place := range places {
		if row := uint32(shape.Row(place)); len(rows) == 0 || rows[len(rows)-1] != row {
			rows = append(rows, row)
		}
	}
	return rows
}

// cut makes several partials of one that is over the payload limit; the first
// carries the times.
func cut(p *pb.Partial, maxRows int) []*pb.Partial {
	n := len(p.Place)
	if n <= maxRows {
		return []*pb.Partial{p}
	}
	stride := len(p.Tensor.Data) / n
	var out []*pb.Partial
	for from := 0; from < n; from += maxRows {
		to := min(from+maxRows, n)
		out = append(out, &pb.Partial{
			Key: p.Key, Place: p.Place[from:to], Awaits: p.Awaits, ByteSeconds: p.ByteSeconds[min(from, len(p.ByteSeconds)):min(to, len(p.ByteSeconds))],
			Tensor: &pb.Tensor{
				Dtype: p.Tensor.Dtype, Rows: uint32(to - from), Cols: p.Tensor.Cols,
				Data: p.Tensor.Data[from*stride : to*stride],
			},
		})
	}
	out[0].Gate, out[0].Function, out[0].Fates = p.Gate, p.Function, p.Fates
	return out
}
