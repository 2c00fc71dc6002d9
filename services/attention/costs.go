package attention

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// cost is what rows took of experts' memory (pkg/policy/meter).
type cost struct {
	byteSeconds float64
	coldStarts  uint32
	metered     bool // hosts have told
}

func (c *cost) add(of cost) {
	c.byteSeconds += of.byteSeconds
	c.coldStarts += of.coldStarts
	c.metered = c.metered || of.metered
}

const gigabyte = 1e9

// record is the cost as logs have it; nil: nobody has told of any.
func (c *cost) record() *pb.Cost {
	if !c.metered {
		return nil
	}
	return &pb.Cost{ExpertGbS: c.byteSeconds / gigabyte, ColdStarts: c.coldStarts}
}

// costOf is a cost from a log.
func costOf(c *pb.Cost) cost {
	return cost{byteSeconds: c.GetExpertGbS() * gigabyte, coldStarts: c.GetColdStarts(), metered: c != nil}
}

// stepCosts gathers what the rows of a step cost, as blocks tell it. The remote's lock guards it.
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
func (c *stepCosts) of(first, rows int) cost {
	out := cost{metered: c.metered}
	for _, x := range c.took[first : first+rows] {
		out.byteSeconds += x
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
	out.coldStarts = uint32(len(functions))
	return out
}
