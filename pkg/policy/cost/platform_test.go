package cost

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lambda is like AWS Lambda.
func lambda() Platform {
	return Platform{
		Sizes: []float64{128 << 20, 512 << 20, 1769 << 20, 3008 << 20}, PerCPU: 1769 << 20,
		CPU:       Roofline{Bandwidth: 8e9, Rate: 20e9, ElementBytes: 4},
		Container: 5, Parameters: Link{Latency: 0.5, Bandwidth: 100e6}, Fixed: 0.01, Random: 0.02, Payload: 6 << 20,
		Prices: Prices{Memory: 16.67e-6, Requests: 0.2e-6, Stored: 0.023 / (30.4 * 24 * 3600)},
	}
}

// The first example of AWS Lambda's price list: a function of 512 MB is invoked three
// million times a month and runs for a second each time. Without what is free, that is 1.5
// million GB·s.
func TestPriceList(t *testing.T) {
	p, n := lambda(), 3_000_000
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"running", p.Run(512<<20, float64(n)), 1_500_000 * 16.67e-6},
		{"requests", p.Invoke(n), 0.60},
		{"a GB in the store for a month", p.Store(GB, 30.4*24*3600), 0.023},
	} {
		if !near(c.got, c.want, 1e-9) {
			t.Errorf("%s: %v dollars, want %v", c.what, c.got, c.want)
		}
	}
}

// An expert of GPT-2's shape, 2 matrices of 768 by 3072 in float32, on each size.
func TestPlatform(t *testing.T) {
	const expert = 2 * 768 * 3072 * 4
	p := lambda()
	for _, tc := range []struct {
		size float64
		rows int
		want float64
	}{
		{1769 << 20, 1, expert / 8e9},                               // reading
		{1769 << 20, 100, 100 * 2 * expert / 4 / 20e9},              // computing
		{512 << 20, 100, 100 * 2 * expert / 4 / 20e9 * 1769. / 512}, // a part of a processor
		{3008 << 20, 0, 0},
	} {
		if got := p.Device(tc.size).Compute(Access{expert, tc.rows}); !near(got, tc.want, 1e-9) {
			t.Errorf("%d rows with %v bytes take %v s, want %v", tc.rows, tc.size, got, tc.want)
		}
	}
	if got, want := p.Cold(expert), 5.5+expert/100e6; !near(got, want, 1e-9) {
		t.Errorf("a cold start takes %v s, want %v", got, want)
	}
	if got := p.Rows(768 * 4); got != 2048 {
		t.Errorf("an invocation takes %d rows", got)
	}
	for bytes, want := range map[float64]float64{1: 128 << 20, 128 << 20: 128 << 20, 128<<20 + 1: 512 << 20} {
		if got, ok := p.Smallest(bytes); got != want || !ok {
			t.Errorf("%v bytes take %v, %v", bytes, got, ok)
		}
	}
	if got, ok := p.Smallest(4 << 30); ok {
		t.Errorf("4 GiB fit in %v", got)
	}
}

// Invocations take the fixed time at least, more with the draw, and by their mean what is
// said. More memory is never slower, and while reading or computing alone counts, not dearer.
func TestPlatformProperties(t *testing.T) {
	p, sum := lambda(), 0.0
	const draws = 1 << 16
	for i := range draws {
		sum += p.Invocation((float64(i) + 0.5) / draws)
	}
	if mean := sum / draws; !near(mean, 0.03, 1e-3) || p.Invocation(0) != 0.01 {
		t.Errorf("an invocation takes %v s in the mean", mean)
	}
	rapid.Check(t, func(t *rapid.T) {
		a := Access{rapid.Float64Range(1, 1e9).Draw(t, "bytes"), rapid.IntRange(1, 1e5).Draw(t, "rows")}
		small := rapid.Float64Range(1<<20, 1<<34).Draw(t, "memory")
		large := small * rapid.Float64Range(1, 100).Draw(t, "times")
		slow, fast := p.Device(small).Compute(a), p.Device(large).Compute(a)
		if fast > slow*(1+1e-12) || !near(p.Run(small, slow), p.Run(large, fast), 1e-9) {
			t.Fatalf("%v and %v s, %v and %v dollars", slow, fast, p.Run(small, slow), p.Run(large, fast))
		}
		if lo, hi := rapid.Float64Range(0, 0.5).Draw(t, "low"), rapid.Float64Range(0.5, 0.999).Draw(t, "high"); p.Invocation(lo) > p.Invocation(hi) {
			t.Fatal("a higher draw takes less")
		}
	})
}

// An access uses no more processors than it can: those that read, and so many for each row.
func TestThreads(t *testing.T) {
	p := lambda()
	a := Access{1e9, 3}
	if got, want := p.Takes(3008<<20, a), p.Device(3008<<20).Compute(a); !near(got, want, 1e-12) {
		t.Errorf("without a limit it takes %v s, want %v", got, want)
	}
	p.Threads = 0.5
	for rows, want := range map[int]float64{
		0: 0, 1: 1e9 / 4e9, // half of a processor reads
		2: 1e9 / 4e9, 40: 40 * 2 * 1e9 / 4 / 20e9 / (3008. / 1769), // all of them compute
	} {
		if got := p.Takes(3008<<20, Access{1e9, rows}); !near(got, want, 1e-12) {
			t.Errorf("%d rows take %v s, want %v", rows, got, want)
		}
	}
}

func TestPlatformRefused(t *testing.T) {
	if err := lambda().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Platform){
		"sizes are missing":                      func(p *Platform) { p.Sizes = nil },
		"size 1 is 1.34217728e+08 bytes":         func(p *Platform) { p.Sizes[1] = p.Sizes[0] },
		"size 0 is NaN bytes":                    func(p *Platform) { p.Sizes[0] = math.NaN() },
		"the memory of a processor is 0":         func(p *Platform) { p.PerCPU = 0 },
		"a processor's bandwidth is -1":          func(p *Platform) { p.CPU.Bandwidth = -1 },
		"a processor's rate is +Inf":             func(p *Platform) { p.CPU.Rate = math.Inf(1) },
		"the bytes of an element is 0":           func(p *Platform) { p.CPU.ElementBytes = 0 },
		"an access's overhead is -1":             func(p *Platform) { p.CPU.Overhead = -1 },
		"a container's start is -1":              func(p *Platform) { p.Container = -1 },
		"the processors of an access is -1":      func(p *Platform) { p.Threads = -1 },
		"an invocation's fixed time is NaN":      func(p *Platform) { p.Fixed = math.NaN() },
		"an invocation's random time is -1":      func(p *Platform) { p.Random = -1 },
		"the payload is 0":                       func(p *Platform) { p.Payload = 0 },
		"the price of memory is -1":              func(p *Platform) { p.Memory = -1 },
		"the price of a request is NaN":          func(p *Platform) { p.Requests = math.NaN() },
		"the price of storage is -1":             func(p *Platform) { p.Stored = -1 },
		"the way of parameters: latency is -1 s": func(p *Platform) { p.Parameters.Latency = -1 },
	} {
		p := lambda()
		spoil(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
