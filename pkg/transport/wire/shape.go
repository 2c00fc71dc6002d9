package wire

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
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
	if err := s.checkDirectives(h); err != nil {
		return 0, err
	}
	return rows, checkPhases(h)
}

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

// KnownPhase reports whether rows can be of a phase.
func KnownPhase(p pb.Phase) bool { return p == pb.Phase_PHASE_PREFILL || p == pb.Phase_PHASE_DECODE }

// CheckDispatch returns the number of token rows in the tensor, which are those
// of the places; the routed rows are at most as many times the model's top-k.
func (s *Shape) CheckDispatch(d *pb.Dispatch) (rows int, err error) {
	if err := s.CheckKey(d.Key); err != nil {
		return 0, err
	}
	if rows, err = tensor.Rows(d.Tensor, s.Hidden); err != nil {
		return 0, err
	}
	n := len(d.Expert)
	if n == 0 || len(d.Place) != n || len(d.Weight) != n {
		return 0, fmt.Errorf("%w: dispatch with %d experts, %d places, %d weights", ErrMalformed, n, len(d.Place), len(d.Weight))
	}
	units, err := s.units(d)
	if err == nil {
		err = s.CheckFates(d.Key, d.Fates)
	}
	if err != nil {
		return 0, err
	}
	for _, e := range d.Expert {
		if uint64(e) >= uint64(units) {
			return 0, fmt.Errorf("%w: dispatch to expert %d of %d", ErrMalformed, e, units)
		}
	}
	return rows, s.checkAscending(d, rows)
}

// units is how many units of a dispatch's kind the layer has.
func (s *Shape) units(d *pb.Dispatch) (int, error) {
	kind := d.GetKind()
	switch kind {
	case pb.FunctionKind_FUNCTION_KIND_UNSPECIFIED, plan.Routed, plan.United: // the first is before dispatches said so
	default:
		return 0, fmt.Errorf("%w: a dispatch of units of kind %d, which is unknown here; run one version of switchyard everywhere", ErrMalformed, kind)
	}
	if err := plan.CheckWay(kind, d.GetWay(), s.Experts); err != nil {
		return 0, fmt.Errorf("%w: a dispatch: %w", ErrMalformed, err)
	}
	if kind != plan.United {
		return s.Experts, nil
	}
	return plan.Groups(s.Experts, int(d.Way)), nil
}

// checkAscending wants places in ascending order that belong to so many rows.
func (s *Shape) checkAscending(d *pb.Dispatch, rows int) error {
	if err := s.checkPlaces(d.Key, d.Awaits, d.Place); err != nil {
		return err
	}
	places, distinct := d.Place, 1
	for i := 1; i < len(places); i++ {
		if places[i] <= places[i-1] {
			return fmt.Errorf("%w: place %d after place %d", ErrMalformed, places[i], places[i-1])
		}
		if s.Row(places[i]) != s.Row(places[i-1]) {
			distinct++
		}
	}
	if distinct != rows {
		return fmt.Errorf("%w: places of %d rows, tensor of %d", ErrMalformed, distinct, rows)
	}
	return nil
}

// Row is the token row of a place.
func (s *Shape) Row(place uint32) int { return int(place) / s.TopK }

// CheckPartial returns the number of the tensor's rows: those of slots, and row sums.
func (s *Shape) CheckPartial(p *pb.Partial) (rows int, err error) {
	if err := s.CheckKey(p.Key); err != nil {
		return 0, err
	}
	if rows, err = tensor.Rows(p.Tensor, s.Hidden); err != nil {
		return 0, err
	}
	if rows == 0 || len(p.Place) != rows {
		return 0, fmt.Errorf("%w: partial of %d rows with %d places", ErrMalformed, rows, len(p.Place))
	}
	if err := s.checkDecision(p); err != nil {
		return 0, err
	}
	if err := checkPartialCost(p); err != nil {
		return 0, err
	}
	return rows, s.checkOutputs(p)
}
