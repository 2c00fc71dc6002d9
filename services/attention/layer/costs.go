package layer

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Cost is what rows took of experts' memory (pkg/policy/meter).
type Cost struct {
	ByteSeconds float64
	ColdStarts  uint32
	Metered     bool // hosts have told
}

// Add counts what other rows took too.
func (c *Cost) Add(of Cost) {
	c.ByteSeconds += of.ByteSeconds
	c.ColdStarts += of.ColdStarts
	c.Metered = c.Metered || of.Metered
}

const gigabyte = 1e9

// Record is the cost as logs have it; nil: nobody has told of any.
func (c *Cost) Record() *pb.Cost {
	if !c.Metered {
		return nil
	}
	return &pb.Cost{ExpertGbS: c.ByteSeconds / gigabyte, ColdStarts: c.ColdStarts}
}

// CostOf is a cost from a log.
func CostOf(c *pb.Cost) Cost {
	return Cost{ByteSeconds: c.GetExpertGbS() * gigabyte, ColdStarts: c.GetColdStarts(), Metered: c != nil}
}

// stepCosts gathers what the rows of a step cost, as blocks tell it. The collection's lock guards it.
type stepCosts struct {
	took    []float64 // byte·seconds, by row
	metered bool
	cold    []coldRow
}

// coldRow is a row that waited for a function that was cold.
type coldRow struct {
	function uint64
	row      int
}

func (c *stepCosts) begin(rows int) {
	if cap(c.took) < rows {
		c.took = make([]float64, rows)
	}
	c.took, c.metered, c.cold = c.took[:rows], false, c.cold[:0]
	clear(c.took)
}

func checkCosts(p *rowsPart, b *pb.Block) error {
	if err := wire.CheckByteSeconds(b.ByteSeconds, p.rows); err != nil {
		return fmt.Errorf("a block: %w", err)
	}
	for _, f := range b.Functions {
		if err := wire.CheckColdRows(f.GetColdRows(), p.rows); err != nil {
			return fmt.Errorf("a block: %w", err)
		}
	}
	return nil
}

// take takes in what a block tells of a part of a layer's rows; it was checked. Where a layer
// has not all rows of the step, nobody can tell whose they are: all have the same share.
func (c *stepCosts) take(p *rowsPart, rows int, b *pb.Block) {
	c.metered = c.metered || len(b.ByteSeconds) > 0
	whole := rows == len(c.took)
	for i, x := range b.ByteSeconds {
		if whole {
			c.took[p.first+i] += float64(x)
			continue
		}
		for at := range c.took {
			c.took[at] += float64(x) / float64(len(c.took))
		}
	}
	for _, f := range b.Functions {
		if whole {
			for _, row := range f.GetColdRows() {
				c.cold = append(c.cold, coldRow{f.Function, p.first + int(row)})
			}
		} else if len(f.GetColdRows()) > 0 {
			c.waitAll(f.Function)
		}
	}
}

// waitAll notes, once, that each row of the step may have waited for a function.
func (c *stepCosts) waitAll(function uint64) {
	for at := range c.took {
		c.cold = append(c.cold, coldRow{function, at})
	}
}

// of is the cost of so many rows from the first on. A function counts once, however many of
// them waited for it.
func (c *stepCosts) of(first, rows int) Cost {
	out := Cost{Metered: c.metered}
	for _, x := range c.took[first : first+rows] {
		out.ByteSeconds += x
	}
	if len(c.cold) == 0 {
		return out
	}
	functions := map[uint64]bool{}
	for _, w := range c.cold {
		if w.row >= first && w.row < first+rows {
			functions[w.function] = true
		}
	}
	out.ColdStarts = uint32(len(functions))
	return out
}

// counts is what a replica tells of its layers: metrics, and counters among the members.
type counts struct {
	metrics  *telemetry.Metrics
	presence *deployment.Presence
}

// hop counts a layer whose blocks are back, and tells its times to whoever traces it.
func (c *counts) hop(ctx context.Context, took time.Duration, l *ledger.Layer) {
	c.metrics.LayerHop().Observe(took.Seconds())
	describe(trace.SpanFromContext(ctx), l)
}

// cut counts claims of blocks that could not be.
func (c *counts) cut(n int) { c.metrics.TimeClaims.Add(float64(n)) }

func (c *counts) reissued(n int) {
	c.metrics.Reissues.Add(float64(n))
	c.presence.Add("reissues_total", float64(n))
}

// describe writes a layer's times to its span, in microseconds.
func describe(span trace.Span, l *ledger.Layer) {
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		telemetry.AttrFunctions.Int(l.Functions), telemetry.AttrCritical.String(fmt.Sprintf("%016x", l.Critical)),
	}
	for stage, d := range l.By {
		attributes = append(attributes, attribute.Float64(ledger.Stage(stage).String()+"_us", float64(d.Nanoseconds())/1e3))
	}
	span.SetAttributes(attributes...)
}
