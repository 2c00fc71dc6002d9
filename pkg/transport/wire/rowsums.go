package wire

import (
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A row sum is what the experts of all awaited slots of a token row give, added in slot
// order. In a group of R rows the sum of row r has the place R·k + r, behind those of slots.

// SumPlace is the place of a row's sum in a group of so many rows.
func (s *Shape) SumPlace(rows, row int) uint32 { return uint32(rows*s.TopK + row) }

// SummedRow is the row whose sum has that place; false: it is the place of a slot.
func (s *Shape) SummedRow(rows int, place uint32) (row int, sum bool) {
	row = int(place) - rows*s.TopK
	return row, row >= 0
}

// checkOutputs wants a partial's places to be awaited slots of its group, or sums of
// rows of which some are.
func (s *Shape) checkOutputs(p *pb.Partial) error {
	rows, awaits := int(p.Key.Rows), Awaits(p.Awaits)
	if err := awaits.check(rows * s.TopK); err != nil {
		return err
	}
	for _, place := range p.Place {
		row, sum := s.SummedRow(rows, place)
		if !sum {
			if err := s.checkPlace(p.Key, awaits, place); err != nil {
				return err
			}
			continue
		}
		if row >= rows || awaits.CountOf(row, s.TopK) == 0 {
			return fmt.Errorf("%w: place %d, the sum of a row of which nothing is awaited, in a group of (%d, %d)", ErrMalformed, place, rows, s.TopK)
		}
	}
	return nil
}
