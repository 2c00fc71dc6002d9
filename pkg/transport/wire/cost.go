package wire

import (
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxByteSeconds is more than a row takes of any memory: a terabyte for a day.
const maxByteSeconds = 1e17

// CheckByteSeconds wants what each of so many rows took of memory, or nothing.
func CheckByteSeconds(all []float32, rows int) error {
	if len(all) != 0 && len(all) != rows {
		return fmt.Errorf("%w: %d rows with %d numbers of what they took of memory", ErrMalformed, rows, len(all))
	}
	for i, x := range all {
		if !(x >= 0 && x <= maxByteSeconds) {
			return fmt.Errorf("%w: row %d took %v byte seconds of memory, want 0 to %v", ErrMalformed, i, x, float32(maxByteSeconds))
		}
	}
	return nil
}

// CheckColdRows wants rows of a group of so many, in ascending order.
func CheckColdRows(all []uint32, rows int) error {
	for i, row := range all {
		if uint64(row) >= uint64(rows) || i > 0 && row <= all[i-1] {
			return fmt.Errorf("%w: row %d of a group of %d waited for a function, after %d others", ErrMalformed, row, rows, i)
		}
	}
	return nil
}

func checkPartialCost(p *pb.Partial) error {
	if err := CheckByteSeconds(p.ByteSeconds, len(p.Place)); err != nil {
		return err
	}
	return CheckColdRows(p.GetFunction().GetColdRows(), int(p.Key.Rows))
}
