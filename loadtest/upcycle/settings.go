package upcycle

import (
	"fmt"
	"math"
)

// Settings say what the experts are like.
type Settings struct {
	Experts int
	TopK    int
	// Noise is the standard deviation of what is added to an expert's weights, in
	// that of the tensor it goes to: 0 makes exact copies.
	Noise float64
	Seed  uint64
	// ShardBytes is the most tensor bytes of a file, unless one tensor is larger.
	ShardBytes int64
	// Progress hears of the bytes written so far; it may be nil.
	Progress func(done, total int64)
}

// mostExperts is what a config may ask for.
const mostExperts = 16384

// Check says which setting makes no sense.
func (s Settings) Check() error {
	switch {
	case s.Experts < 1 || s.Experts > mostExperts:
		return fmt.Errorf("experts is %d; it must be 1 to %d", s.Experts, mostExperts)
	case s.TopK < 1 || s.TopK > s.Experts:
		return fmt.Errorf("top-k is %d; it must be 1 to %d, the number of experts", s.TopK, s.Experts)
	case !(s.Noise >= 0) || math.IsInf(s.Noise, 0):
		return fmt.Errorf("noise is %v; it must be a finite number of 0 or more", s.Noise)
	case s.ShardBytes < 1:
		return fmt.Errorf("shard-size is %d bytes; it must be 1 or more", s.ShardBytes)
	}
	return nil
}
