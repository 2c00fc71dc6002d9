package cost

import (
	"fmt"
	"math"
	"slices"
)

// GB is the gigabyte of a serverless platform's bill: functions have whole MiB of memory.
const GB = 1 << 30

// Platform runs functions that are rented by memory and time. Memory decides speed.
type Platform struct {
	// Sizes are the bytes of memory that a function can have, ascending.
	Sizes []float64
	// PerCPU are the bytes for which a function has one processor: one of half of them
	// has half of its time.
	PerCPU float64
	// CPU is one processor.
	CPU Roofline
	// Threads are the processors that read an access's weights at most, and that compute each of
	// its rows; 0 is no limit.
	Threads float64
	// Speeds are times that were measured, instead of CPU and Threads; nil: there are none.
	Speeds *Speeds
	// Container are the seconds in which a cold function's container starts.
	Container float64
	// Parameters is the way of a function's parameters into its memory.
	Parameters Link
	// Fixed and Random are the seconds that an invocation takes beside its work: the least,
	// and the mean of what comes on top, which is exponentially distributed.
	Fixed, Random float64
	// Payload are the most bytes of an invocation's input, and of its answer.
	Payload float64
	// Direct are the bytes a second of an invocation's input and answer; 0 takes no time.
	Direct float64
	// Replicas are how many of a function run beside each other, at most.
	Replicas int
	Prices
}

// Prices are what is paid, in dollars.
type Prices struct {
	Memory   float64 // a GB of memory for a second
	Requests float64 // an invocation
	Stored   float64 // a GB in the store for a second
	Puts     float64 // an object that is put into the store
	Gets     float64 // one that is read
}

// Smallest is the least memory that holds so many bytes; ok is false where none does.
func (p Platform) Smallest(bytes float64) (size float64, ok bool) {
	at := slices.IndexFunc(p.Sizes, func(size float64) bool { return size >= bytes })
	if at < 0 {
		return 0, false
	}
	return p.Sizes[at], true
}

// CPUs are the processors of a function with so much memory.
func (p Platform) CPUs(size float64) float64 { return size / p.PerCPU }

// Device is what a function with so much memory computes on.
func (p Platform) Device(size float64) Device {
	r := p.CPU
	r.Bandwidth *= p.CPUs(size)
	r.Rate *= p.CPUs(size)
	return Device{Timer: r}
}

// Takes is what an access takes of a function with so much memory, of which it uses no more
// processors than Threads, or what was measured of it.
func (p *Platform) Takes(size float64, a Access) float64 {
	if p.Speeds != nil {
		return p.Speeds.Seconds(size, a)
	}
	r, n := p.CPU, p.CPUs(size)
	read, compute := n, n
	if p.Threads > 0 {
		read, compute = min(n, p.Threads), min(n, p.Threads*float64(max(1, a.Rows)))
	}
	r.Bandwidth *= read
	r.Rate *= compute
	return r.Seconds(a)
}

// Cold is the time until a cold function with such parameters can be invoked.
func (p Platform) Cold(parameters float64) float64 {
	return p.Container + p.Parameters.Seconds(parameters)
}

// Invocation is what an invocation takes beside its work, by a draw from [0, 1).
func (p Platform) Invocation(draw float64) float64 { return p.Fixed - p.Random*math.Log1p(-draw) }

// Rows are the most rows of so many bytes that an invocation takes.
func (p Platform) Rows(bytes float64) int { return int(p.Payload / bytes) }

// Run is the price of memory for as long as a function runs.
func (p Prices) Run(size, seconds float64) float64 { return p.Memory * size / GB * seconds }

// Invoke is the price of invocations, their running apart.
func (p Prices) Invoke(n int) float64 { return p.Requests * float64(n) }

// Objects is the price of so many objects that are put into the store, and of reading some.
func (p Prices) Objects(puts, gets int) float64 {
	return p.Puts*float64(puts) + p.Gets*float64(gets)
}

// Store is the price of bytes in the store.
func (p Prices) Store(bytes, seconds float64) float64 { return p.Stored * bytes / GB * seconds }

// Check says which constant of a platform cannot be.
func (p Platform) Check() error {
	if len(p.Sizes) == 0 {
		return fmt.Errorf("sizes are missing; a platform has one at least")
	}
	for i, size := range p.Sizes {
		if !(size > 0) || math.IsInf(size, 0) || i > 0 && size <= p.Sizes[i-1] {
			return fmt.Errorf("size %d is %v bytes; sizes are above 0 and ascend", i, size)
		}
	}
	for _, c := range []struct {
		name  string
		v     float64
		above bool // 0 is none
	}{
		{"the memory of a processor", p.PerCPU, true},
		{"a processor's bandwidth", p.CPU.Bandwidth, true},
		{"a processor's rate", p.CPU.Rate, true},
		{"the bytes of an element", p.CPU.ElementBytes, true},
		{"an access's overhead", p.CPU.Overhead, false},
		{"the processors of an access", p.Threads, false},
		{"a container's start", p.Container, false},
		{"an invocation's fixed time", p.Fixed, false},
		{"an invocation's random time", p.Random, false},
		{"the payload", p.Payload, true},
		{"the price of memory", p.Memory, false},
		{"the price of a request", p.Requests, false},
		{"the price of storage", p.Stored, false},
		{"the price of an object that is put", p.Puts, false},
		{"the price of one that is read", p.Gets, false},
		{"the bytes a second of invocations", p.Direct, false},
		{"the number of replicas", float64(p.Replicas), false},
	} {
		if !(c.v >= 0) || math.IsInf(c.v, 0) || c.above && c.v == 0 {
			return fmt.Errorf("%s is %v; it must be finite, and %s", c.name, c.v, map[bool]string{true: "above 0", false: "0 or above"}[c.above])
		}
	}
	if err := p.Parameters.Check(); err != nil {
		return fmt.Errorf("the way of parameters: %w", err)
	}
	return nil
}
