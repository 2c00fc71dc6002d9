package wire

import (
	"fmt"
	"math/bits"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Awaits are the places (row·k + slot) of a group that were dispatched, and that
// its sum is made of: a bit each, the lowest of a byte first. Empty: all.
type Awaits []byte

// NewAwaits awaits none of so many places yet.
func NewAwaits(places int) Awaits { return make(Awaits, (places+7)/8) }

// Add awaits a place.
func (a Awaits) Add(place int) { a[place/8] |= 1 << (place % 8) }

// Has reports whether a place is awaited.
func (a Awaits) Has(place int) bool { return len(a) == 0 || a[place/8]&(1<<(place%8)) != 0 }

// Count is how many of so many places are awaited.
func (a Awaits) Count(places int) (n int) {
	if len(a) == 0 {
		return places
	}
	for _, b := range a {
		n += bits.OnesCount8(b)
	}
	return n
}

// CountOf is how many of a row's k places are awaited.
func (a Awaits) CountOf(row, k int) (n int) {
	for place := row * k; place < (row+1)*k; place++ {
		if a.Has(place) {
			n++
		}
	}
	return n
}

// check refuses what does not fit the places, and what has a shorter form.
func (a Awaits) check(places int) error {
	if len(a) == 0 {
		return nil
	}
	if len(a) != (places+7)/8 {
		return fmt.Errorf("%w: awaits of %d bytes for a group of %d rows and slots", ErrMalformed, len(a), places)
	}
	if past := places % 8; past > 0 && a[len(a)-1]>>past != 0 {
		return fmt.Errorf("%w: awaits with bits beyond the group's %d rows and slots", ErrMalformed, places)
	}
	if n := a.Count(places); n == 0 || n == places {
		return fmt.Errorf("%w: awaits %d of %d rows and slots; all are awaited by none being named, and a group of none has no messages", ErrMalformed, n, places)
	}
	return nil
}

// checkPlaces wants the places of a message to be awaited ones of its group.
func (s *Shape) checkPlaces(k *pb.Key, awaits Awaits, places []uint32) error {
	if err := awaits.check(int(k.Rows) * s.TopK); err != nil {
		return err
	}
	for _, place := range places {
		if err := s.checkPlace(k, awaits, place); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shape) checkPlace(k *pb.Key, awaits Awaits, place uint32) error {
	if uint64(place) >= uint64(k.Rows)*uint64(s.TopK) {
		return fmt.Errorf("%w: place %d in a group of (%d, %d)", ErrMalformed, place, k.Rows, s.TopK)
	}
	if !awaits.Has(int(place)) {
		return fmt.Errorf("%w: place %d, which the group does not await", ErrMalformed, place)
	}
	return nil
}
