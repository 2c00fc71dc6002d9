package wire

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Shape is what the model and the server let a message claim. Memory, names
// and loops follow a message's numbers only after they were held against it.
type Shape struct {
	Identity
	// Hidden is the width of rows.
	Hidden, Experts, TopK int
	// MoE says of each layer whether it has experts.
	MoE []bool
	// MaxRows is how many rows a message can carry.
	MaxRows func() int
}

// CheckKey refuses the key of another version or model, and one of a layer or of rows that
// cannot be.
func (s *Shape) CheckKey(k *pb.Key) error {
	if err := s.Identity.CheckKey(k); err != nil {
		return err
	}
	if uint64(k.Layer) >= uint64(len(s.MoE)) || !s.MoE[k.Layer] {
		return fmt.Errorf("%w: layer %d has no experts in this model", ErrMalformed, k.Layer)
	}
	if most := s.MaxRows(); uint64(k.Rows) > uint64(most) {
		return fmt.Errorf("%w: key of %d rows; a message carries at most %d", ErrMalformed, k.Rows, most)
	}
	return nil
}

// CheckHidden returns the number of rows.
func (s *Shape) CheckHidden(h *pb.Hidden) (rows int, err error) {
	if err := s.CheckKey(h.Key); err != nil {
		return 0, err
	}
	if rows, err = tensor.Rows(h.Tensor, s.Hidden); err != nil {
		return 0, err
	}
	if rows != int(h.Key.Rows) {
		return 0, fmt.Errorf("%w: key of %d rows, tensor of %d", ErrMalformed, h.Key.Rows, rows)
	}
	return rows, checkPhases(h)
}

// checkPhases wants one phase for each row.
func checkPhases(h *pb.Hidden) error {
	rows := uint64(0)
	for _, p := range h.Phases {
		if p.GetRows() == 0 || !KnownPhase(p.GetPhase()) {
			return fmt.Errorf("%w: %d rows of phase %d", ErrMalformed, p.GetRows(), p.GetPhase())
		}
		rows += uint64(p.Rows)
	}
	if rows != uint64(h.Key.Rows) {
		return fmt.Errorf("%w: key of %d rows, phases of %d", ErrMalformed, h.Key.Rows, rows)
	}
	return nil
}

// KnownPhase says whether rows can be of a phase.
func KnownPhase(p pb.Phase) bool { return p == pb.Phase_PHASE_PREFILL || p == pb.Phase_PHASE_DECODE }

// CheckDispatch returns the number of token rows in the tensor; the routed
// rows are at most as many times the model's top-k.
func (s *Shape) CheckDispatch(d *pb.Dispatch) (rows int, err error) {
	if err := s.CheckKey(d.Key); err != nil {
		return 0, err
	}
	if rows, err = tensor.Rows(d.Tensor, s.Hidden); err != nil {
		return 0, err
	}
	n := len(d.Expert)
	if n == 0 || len(d.Source) != n || len(d.Row) != n || len(d.Slot) != n || len(d.Weight) != n {
		return 0, fmt.Errorf("%w: dispatch with %d experts, %d sources, %d rows, %d slots, %d weights",
			ErrMalformed, n, len(d.Source), len(d.Row), len(d.Slot), len(d.Weight))
	}
	if int(d.TopK) != s.TopK || rows > int(d.Key.Rows) || n > rows*s.TopK {
		return 0, fmt.Errorf("%w: dispatch of %d rows with %d routed rows, top-k %d, for a group of %d rows; the model's top-k is %d",
			ErrMalformed, rows, n, d.TopK, d.Key.Rows, s.TopK)
	}
	for i, from := range d.Source {
		if int(from) >= rows || int(d.Expert[i]) >= s.Experts {
			return 0, fmt.Errorf("%w: dispatch sends row %d of %d to expert %d of %d", ErrMalformed, from, rows, d.Expert[i], s.Experts)
		}
	}
	return rows, s.checkPlaces(d.Key, d.Awaits, d.Row, d.Slot)
}

// CheckPartial returns the number of routed rows.
func (s *Shape) CheckPartial(p *pb.Partial) (rows int, err error) {
	if err := s.CheckKey(p.Key); err != nil {
		return 0, err
	}
	if rows, err = tensor.Rows(p.Tensor, s.Hidden); err != nil {
		return 0, err
	}
	if rows == 0 || len(p.Row) != rows || len(p.Slot) != rows || int(p.TopK) != s.TopK {
		return 0, fmt.Errorf("%w: partial of %d rows with %d row and %d slot numbers, top-k %d; the model's is %d",
			ErrMalformed, rows, len(p.Row), len(p.Slot), p.TopK, s.TopK)
	}
	return rows, s.checkPlaces(p.Key, p.Awaits, p.Row, p.Slot)
}
