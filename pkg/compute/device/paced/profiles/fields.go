package profiles

import (
	"fmt"
	"math"
	"slices"
)

// field is a number of a profile, or of a platform, and what it may be.
type field[T any] struct {
	key         string
	of          func(*T) *Number
	least, most float64
	whole       bool
}

// The largest numbers, ten times or more beyond what devices have, so that what is beyond
// them is a wrong unit or a wrong exponent: a B200 reads 8e12 bytes a second and computes
// 2.3e15 operations, NVLink 5 has 1.8e12 bytes a second, the largest machines have 1e14
// bytes, a row of 32 KB takes 0.03 s on a link of 1 MB a second, a large container
// starts in some minutes.
const (
	mostRead    = 1e14
	mostRate    = 1e17
	mostLink    = 2e13
	mostBytes   = 1e14
	mostSeconds = 3600 // of a transfer
	mostStart   = 600
)

// fields are all numbers of a profile. What divides, and what a device cannot be
// without, must not be 0.
var fields = []field[Profile]{
	{"read_bytes_per_second", func(p *Profile) *Number { return &p.Read }, 1e6, mostRead, false},
	{"flops_per_second", func(p *Profile) *Number { return &p.Rate }, 1e6, mostRate, false},
	{"element_bytes", func(p *Profile) *Number { return &p.Element }, 0.25, 8, false},
	{"access_seconds", func(p *Profile) *Number { return &p.Access }, 0, 0.1, false},
	{"call_seconds", func(p *Profile) *Number { return &p.Call }, 0, 0.1, false},
	{"alpha_seconds", func(p *Profile) *Number { return &p.Alpha }, 1e-12, 1, false},
	{"beta_seconds", func(p *Profile) *Number { return &p.Beta }, 0, 0.1, false},
	{"expert_bytes", func(p *Profile) *Number { return &p.ExpertBytes }, 1, mostBytes, true},
	{"memory_bytes", func(p *Profile) *Number { return &p.MemoryBytes }, 1, mostBytes, true},
	{"bytes_per_second", func(p *Profile) *Number { return &p.Bandwidth }, 1, mostLink, false},
	{"cold_start_seconds", func(p *Profile) *Number { return &p.ColdStart }, 0, mostStart, false},
}

// extras are groups of numbers of which a profile has all, or none.
var extras = [][]field[Profile]{
	{{"shared_bytes_per_second", func(p *Profile) *Number { return &p.Shared }, 1, mostLink, false}},
	{
		{"machine_memory_bytes", func(p *Profile) *Number { return &p.Below }, 1, mostBytes, true},
		{"store_bytes_per_second", func(p *Profile) *Number { return &p.Store }, 1, mostLink, false},
		{"store_seconds", func(p *Profile) *Number { return &p.Latency }, 0, mostStart, false},
	},
}

func (p *Profile) fields() []field[Profile] {
	all := slices.Clone(fields)
	for _, group := range extras {
		if group[0].of(p).Value > 0 {
			all = append(all, group...)
		}
	}
	return all
}

func (f field[T]) check(v float64) error {
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

func (p *Profile) check() error {
	if p.ExpertBytes.Value > p.MemoryBytes.Value {
		return fmt.Errorf("expert_bytes is %.0f and memory_bytes %.0f; one expert must fit", p.ExpertBytes.Value, p.MemoryBytes.Value)
	}
	if below := p.Below.Value; below > 0 && p.ExpertBytes.Value > below {
		return fmt.Errorf("expert_bytes is %.0f and machine_memory_bytes %.0f; one expert must fit", p.ExpertBytes.Value, below)
	}
	for _, at := range []struct {
		key   string
		speed float64
	}{{"shared_bytes_per_second", p.Shared.Value}, {"store_bytes_per_second", p.Store.Value}, {"read_bytes_per_second", p.Read.Value}, {"bytes_per_second", p.Bandwidth.Value}} {
		if s := p.ExpertBytes.Value / at.speed; at.speed > 0 && s > mostSeconds {
			return fmt.Errorf("expert_bytes takes %.0f seconds at %s; it must be at most %d", s, at.key, mostSeconds)
		}
	}
	return nil
}
