package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// One is all, in millionths.
const One = 1_000_000

// maxWhole bounds the rows of a microbatch that are decided together.
const maxWhole = 1 << 20

// CheckStamp refuses directives that cannot be. None are none, and what is not known here
// is for others.
func (s *Shape) CheckStamp(t *pb.Stamp) error {
	switch {
	case t == nil:
		return nil
	case t.Version == 0 && !bare(t):
		return fmt.Errorf("%w: a stamp with directives and no version", ErrMalformed)
	case t.PrefillMillionths > One || t.DecodeMillionths > One:
		return fmt.Errorf("%w: a stamp with thresholds of %d and %d millionths; they are 0 to %d", ErrMalformed, t.PrefillMillionths, t.DecodeMillionths, One)
	case t.Way == 1 || uint64(t.Way) > uint64(s.Experts):
		return fmt.Errorf("%w: a stamp of way %d; it is 0, or 2 to %d", ErrMalformed, t.Way, s.Experts)
	case t.Strategy == pb.Strategy_STRATEGY_PARTIAL && t.Way == 0:
		return fmt.Errorf("%w: a stamp by which united experts stand in, of no way", ErrMalformed)
	}
	return nil
}

// bare says that a stamp sets nothing that is known here.
func bare(t *pb.Stamp) bool {
	known := proto.CloneOf(t)
	known.ProtoReflect().SetUnknown(nil)
	return proto.Size(known) == 0
}

// checkDirectives is for what hidden rows carry beside themselves.
func (s *Shape) checkDirectives(h *pb.Hidden) error {
	if err := s.CheckStamp(h.Stamp); err != nil {
		return err
	}
	if end := uint64(h.Key.Part) + uint64(h.Key.Rows); h.WholeRows != 0 && (uint64(h.WholeRows) < end || h.WholeRows > maxWhole) {
		return fmt.Errorf("%w: rows up to %d of a microbatch of %d; it has at most %d", ErrMalformed, end, h.WholeRows, maxWhole)
	}
	return s.CheckFates(h.Key, h.Replay)
}

// checkDecision refuses fates of a partial that are not those of its decision, or that leave out
// what its group awaits.
func (s *Shape) checkDecision(p *pb.Partial) error {
	if p.Fates == nil {
		return nil
	}
	if p.Decision != HashFates(p.Fates) {
		return fmt.Errorf("%w: a partial with fates that are not those of its decision %016x", ErrMalformed, p.Decision)
	}
	if err := s.CheckFates(p.Key, p.Fates); err != nil {
		return err
	}
	codes, err := DecodeFates(p.Fates)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	awaits := Awaits(p.Awaits)
	if err := awaits.check(len(codes)); err != nil {
		return err
	}
	for place, c := range codes {
		if c == FateLeftOut && awaits.Has(place) {
			return fmt.Errorf("%w: a partial of a group that awaits place %d, which is left out", ErrMalformed, place)
		}
	}
	return nil
}

// CheckFates refuses fates that are not of a key's rows in one layer; nil is none.
func (s *Shape) CheckFates(k *pb.Key, f *pb.Fates) error {
	if err := CheckFatesShape(f, FatesShape{Rows: int(k.GetRows()), Layers: 1, Slots: s.TopK}); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
