package profiles

import (
	"fmt"
	"math"
)

// field is a number of a profile and what it may be.
type field struct {
	key         string
	of          func(*Profile) *Number
	least, most float64
	whole       bool
}

// The largest numbers: far above any device, and safe to multiply.
const (
	mostBytes   = 1 << 50
	mostSeconds = 3600
)

// fields are all numbers of a profile. What divides, and what a device cannot be
// without, must not be 0.
var fields = []field{
	{"read_bytes_per_second", func(p *Profile) *Number { return &p.Read }, 1e6, mostBytes, false},
	{"flops_per_second", func(p *Profile) *Number { return &p.Rate }, 1e6, 1e18, false},
	{"element_bytes", func(p *Profile) *Number { return &p.Element }, 0.25, 8, false},
	{"access_seconds", func(p *Profile) *Number { return &p.Access }, 0, 1, false},
	{"call_seconds", func(p *Profile) *Number { return &p.Call }, 0, 1, false},
	{"alpha_seconds", func(p *Profile) *Number { return &p.Alpha }, 1e-12, 1, false},
	{"beta_seconds", func(p *Profile) *Number { return &p.Beta }, 0, 1, false},
	{"expert_bytes", func(p *Profile) *Number { return &p.ExpertBytes }, 1, mostBytes, true},
	{"memory_bytes", func(p *Profile) *Number { return &p.MemoryBytes }, 1, mostBytes, true},
	{"bytes_per_second", func(p *Profile) *Number { return &p.Bandwidth }, 1, mostBytes, false},
	{"cold_start_seconds", func(p *Profile) *Number { return &p.ColdStart }, 0, mostSeconds, false},
}

// check refuses what no device has.
func (f field) check(v float64) error {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("%s is %v; it must be a finite number", f.key, v)
	case v < f.least || v > f.most:
		return fmt.Errorf("%s is %v; it must be from %v to %v", f.key, v, f.least, f.most)
	case f.whole && v != math.Trunc(v):
		return fmt.Errorf("%s is %v; it must be a whole number", f.key, v)
	}
	return nil
}

// check refuses numbers that do not fit each other.
func (p *Profile) check() error {
	if p.ExpertBytes.Value > p.MemoryBytes.Value {
		return fmt.Errorf("expert_bytes is %.0f and memory_bytes %.0f; one expert must fit", p.ExpertBytes.Value, p.MemoryBytes.Value)
	}
	if s := p.ExpertBytes.Value / p.Bandwidth.Value; s > mostSeconds {
		return fmt.Errorf("expert_bytes takes %.0f seconds at bytes_per_second; it must be at most %d", s, mostSeconds)
	}
	return nil
}
