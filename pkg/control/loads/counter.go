package loads

import (
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Every is how often a host that computes sends samples.
const Every = time.Second

// Counter counts the rows that a host's experts compute.
type Counter struct {
	model uint64
	host  string
	rows  [][]atomic.Uint64 // by layer and expert; none for a layer without experts
	told  [][]uint64        // how many of them samples have told of
}

// NewCounter counts for a host of a model, whose layers have experts where moe
// says so.
func NewCounter(model uint64, host string, moe []bool, experts int) *Counter {
	c := &Counter{model: model, host: host, rows: make([][]atomic.Uint64, len(moe)), told: make([][]uint64, len(moe))}
	for l, has := range moe {
		if has {
			c.rows[l], c.told[l] = make([]atomic.Uint64, experts), make([]uint64, experts)
		}
	}
	return c
}

// Add counts a row for each of the experts named, which a layer of the model has.
func (c *Counter) Add(layer uint32, experts []uint32) {
	rows := c.rows[layer]
	for _, e := range experts {
		rows[e].Add(1)
	}
}

// Take returns a sample of each layer that computed anything since the samples
// before, which were taken span ago; with all, of each that ever did, with all its
// experts that did. Only one goroutine may take.
func (c *Counter) Take(span time.Duration, all bool) (samples []*pb.LoadSample) {
	for l := range c.rows {
		if s := c.take(l, all); len(s.Expert) > 0 {
			s.SpanMs = uint32(max(1, span.Milliseconds()))
			samples = append(samples, s)
		}
	}
	return samples
}

func (c *Counter) take(layer int, all bool) *pb.LoadSample {
	s := &pb.LoadSample{Version: schemas.Version, Model: c.model, Host: c.host, Layer: uint32(layer)}
	told := c.told[layer]
	for e := range c.rows[layer] {
		total := c.rows[layer][e].Load()
		if rows := total - told[e]; rows > 0 || all && total > 0 {
			s.Expert, s.Rows, s.Total = append(s.Expert, uint32(e)), append(s.Rows, rows), append(s.Total, total)
			told[e] = total
		}
	}
	return s
}
