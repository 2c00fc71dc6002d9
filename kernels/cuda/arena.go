package cuda

import (
	"errors"
	"fmt"
	"sync"
)

// Align is what addresses in an arena are multiples of.
const Align = 256

// Arena is one allocation of device memory, cut into pieces when a process starts.
// The last piece is Slots; until then it is for one goroutine.
type Arena struct {
	d          Driver
	base       Ptr
	used, size int64
	apart      bool
	pieces     []Ptr // if apart
}

// Apart is a driver on which each piece of an arena is an allocation of its own, of just
// its bytes, so that tools that watch accesses see where it ends. It is for tests.
type Apart struct{ Driver }

// NewArena allocates so many bytes. If the device has not as many free, in one piece,
// it is a *MemoryError that says what they were for.
func NewArena(d Driver, bytes int64, what string) (*Arena, error) {
	free, err := d.Free()
	if err != nil {
		return nil, fmt.Errorf("asking for free memory: %w", err)
	}
	info := d.Info()
	short := &MemoryError{Device: info.Name, What: what, Need: bytes, Free: free, Total: info.Memory}
	if bytes > free || bytes <= 0 {
		return nil, short
	}
	if _, apart := d.(Apart); apart {
		return &Arena{d: d, size: bytes, apart: true}, nil
	}
	base, err := d.Alloc(bytes)
	if errors.Is(err, ErrMemory) {
		return nil, short // free, but not in one piece, or taken meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", bytes, err)
	}
	return &Arena{d: d, base: base, size: bytes}, nil
}

// Take cuts a piece of so many bytes off, rounded up to Align. If the rest is less it
// is a *RoomError that says what it was for.
func (a *Arena) Take(bytes int64, what string) (Ptr, error) {
	need := Aligned(bytes)
	if need > a.Rest() {
		return 0, &RoomError{What: what, Need: need, Rest: a.Rest(), Size: a.size}
	}
	p := a.base + Ptr(a.used)
	if a.apart {
		var err error
		if p, err = a.d.Alloc(max(1, bytes)); err != nil {
			return 0, fmt.Errorf("allocating %s: %w", what, err)
		}
		a.pieces = append(a.pieces, p)
	}
	a.used += need
	return p, nil
}

// Rest returns the bytes that are not cut off yet.
func (a *Arena) Rest() int64 { return a.size - a.used }

// Size returns the bytes of the whole.
func (a *Arena) Size() int64 { return a.size }

// Close frees the arena with all its pieces.
func (a *Arena) Close() error {
	if !a.apart {
		return a.d.Release(a.base)
	}
	var errs []error
	for _, p := range a.pieces {
		errs = append(errs, a.d.Release(p))
	}
	return errors.Join(errs...)
}

// Aligned is bytes up to the next multiple of Align.
func Aligned(bytes int64) int64 { return (bytes + Align - 1) / Align * Align }

// RoomError says that an arena is too small for What.
type RoomError struct {
	What             string
	Need, Rest, Size int64 // bytes: wanted, not cut off yet, of the whole arena
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("%s needs %d bytes, and of the --gpu-memory of %d bytes %d are left: give more", e.What, e.Need, e.Size, e.Rest)
}

// Is makes it ErrMemory.
func (e *RoomError) Is(target error) bool { return target == ErrMemory }

// Slots are pieces of an arena, all of one size. They are safe for concurrent use.
type Slots struct {
	size int64
	mu   sync.Mutex
	free []Ptr // the last one is taken next
	all  int
}

// Slots cuts all the rest into slots of so many bytes each, rounded up to Align. If
// not one fits it is a *RoomError that says what it was for.
func (a *Arena) Slots(bytes int64, what string) (*Slots, error) {
	s := &Slots{size: Aligned(bytes)}
	for a.Rest() >= s.size {
		p, err := a.Take(s.size, what)
		if err != nil {
			return nil, err
		}
		s.free = append(s.free, p)
	}
	if s.all = len(s.free); s.all == 0 {
		return nil, &RoomError{What: what, Need: s.size, Rest: a.Rest(), Size: a.size}
	}
	return s, nil
}

// Size returns the bytes of a slot.
func (s *Slots) Size() int64 { return s.size }

// Count returns how many slots there are, free or not.
func (s *Slots) Count() int { return s.all }

// Take returns a slot; false if none is free.
func (s *Slots) Take() (p Ptr, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return 0, false
	}
	p = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return p, true
}

// Give takes a slot back.
func (s *Slots) Give(p Ptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, p)
}
