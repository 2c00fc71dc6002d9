//go:build cuda || emulate

package cuda

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// gpuBench is a GPU, and what it does at most.
type gpuBench struct {
	driver cuda.Driver
	module cuda.Module
	stream cuda.Stream
	health *health
	done   *waiter
	read   float64 // bytes a second
	peak   float64 // operations of mma.sync a second
	// peakWgmma is that of wgmma; 0: the GPU has none.
	peakWgmma float64
}

func openGPU(b *testing.B) *gpuBench {
	b.Helper()
	g := &gpuBench{driver: realKernels(b), health: newHealth(10 * time.Minute)}
	b.Cleanup(func() { _ = g.driver.Close() }) // says only what a call has said
	var err error
	if g.module, err = images.Open(g.driver); err != nil {
		b.Fatal(err)
	}
	if g.stream, err = g.driver.NewStream(); err != nil {
		b.Fatal(err)
	}
	if g.done, err = newWaiter(g.driver, g.health); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.done.close(false) })
	g.ceilings(b)
	return g
}

// ceilings measures what the GPU does at most.
func (g *gpuBench) ceilings(b *testing.B) {
	b.Helper()
	blocks := 8 * g.driver.Info().Processors
	from, err := g.driver.Alloc(ceilingBytes)
	g.do(b, err)
	out, err := g.driver.Alloc(int64(4 * 256 * blocks))
	g.do(b, err)
	launch := func(name string, args ...any) *cuda.Launch {
		return launchOf(g.kernel(b, name, 0), blocks, 1, 1, 256, 0, args...)
	}
	read, product := launch("ceiling_read", out, from, int(ceilingBytes/16)), launch("ceiling_mma", out, ceilingSteps)
	g.read = float64(ceilingBytes) / g.time(b, 8, func() error { return g.stream.Launch(read) })
	g.peak = float64(blocks*8*ceilingSteps*8*2*16*8*16) / g.time(b, 8, func() error { return g.stream.Launch(product) })
	if cuda.Wgmma.On(g.driver.Info()) == nil {
		const shared = 49 << 10
		product = launchOf(g.kernel(b, "ceiling_wgmma", shared), blocks, 1, 1, 256, shared, out, ceilingSteps)
		g.peakWgmma = float64(blocks*2*ceilingSteps*8*2*64*136*16) / g.time(b, 8, func() error { return g.stream.Launch(product) })
	}
	g.do(b, g.driver.Release(from))
	g.do(b, g.driver.Release(out))
}

func (g *gpuBench) do(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (g *gpuBench) wait(b *testing.B) {
	b.Helper()
	g.do(b, g.done.record(g.stream))
	g.do(b, g.done.wait())
}

// time is the seconds that the GPU takes for one of n, after a first one.
func (g *gpuBench) time(b *testing.B, n int, work func() error) float64 {
	b.Helper()
	g.do(b, work())
	g.wait(b)
	begun := time.Now()
	for range n {
		g.do(b, work())
	}
	g.wait(b)
	return time.Since(begun).Seconds() / float64(n)
}

// compare times launches, and sets the bytes that they have to read and their operations
// beside the ceilings.
func (g *gpuBench) compare(b *testing.B, bytes, operations float64, launches ...*cuda.Launch) {
	b.Helper()
	b.ResetTimer()
	seconds := g.time(b, b.N, g.started(launches))
	b.ReportMetric(seconds*1e9, "ns/op") // without the first one
	b.ReportMetric(bytes/seconds/1e9, "GB/s")
	b.ReportMetric(100*bytes/seconds/g.read, "%read")
	b.ReportMetric(operations/seconds/1e12, "TFLOP/s")
	b.ReportMetric(100*operations/seconds/g.peak, "%mma")
	if g.peakWgmma > 0 {
		b.ReportMetric(100*operations/seconds/g.peakWgmma, "%wgmma")
	}
}

// started starts launches in order.
func (g *gpuBench) started(launches []*cuda.Launch) func() error {
	return func() error {
		for _, l := range launches {
			if err := g.stream.Launch(l); err != nil {
				return err
			}
		}
		return nil
	}
}

func (g *gpuBench) kernel(b *testing.B, name string, shared int) cuda.Kernel {
	b.Helper()
	k, err := g.module.Kernel(name, shared)
	g.do(b, err)
	return k
}

// room is memory of the GPU, full of bf16 numbers from -2 to 2, until the benchmark ends. Where there
// is too little the benchmark is skipped.
func (g *gpuBench) room(b *testing.B, bytes int64) cuda.Ptr {
	b.Helper()
	p, err := g.driver.Alloc(bytes)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { _ = g.driver.Release(p) }) // the driver has said what is wrong with it
	some, err := g.driver.Pin(min(bytes, wayBytes))
	g.do(b, err)
	for i := range some {
		some[i] = byte(i * 2654435761 >> 13)
		if i%2 == 1 {
			some[i] = some[i]&0x80 | 0x3c + some[i]&3 // the sign and exponent of a bf16
		}
	}
	for at := int64(0); at < bytes; at += int64(len(some)) {
		g.do(b, g.stream.CopyIn(p+cuda.Ptr(at), some[:min(int64(len(some)), bytes-at)]))
	}
	g.wait(b)
	g.do(b, g.driver.Unpin(some))
	return p
}

// paged is sequences of one length in pages.
type paged struct {
	part, q, start, end, pagesAt, pages cuda.Ptr
	splits                              int
	bytes                               float64 // of all pages
}

// paged makes rows with so many elements of a query, and of what each split leaves.
func (g *gpuBench) paged(b *testing.B, rows, context int, block int64, query, left int) *paged {
	b.Helper()
	each := ceil(context, 32)
	p := &paged{splits: ceil(context, splitPositions), bytes: float64(rows) * float64(each) * float64(block)}
	cache := g.room(b, int64(rows)*int64(each)*block)
	p.q, p.part = g.room(b, int64(4*rows*query)), g.room(b, int64(4*rows*left)*int64(p.splits))
	table := make([]uint32, 4*rows, 4*rows+2*rows*each+2)
	for i := range rows {
		table[rows+i], table[2*rows+i] = uint32(context), uint32(i*each)
	}
	for i := range rows * each {
		at := uint64(cache) + uint64(i)*uint64(block)
		table = append(table, uint32(at), uint32(at>>32))
	}
	pinned, err := g.driver.Pin(int64(4 * len(table)))
	g.do(b, err)
	copy(view[uint32](pinned, 0), table)
	to := g.room(b, int64(len(pinned)))
	g.do(b, g.stream.CopyIn(to, pinned))
	g.wait(b)
	g.do(b, g.driver.Unpin(pinned))
	at := func(i int) cuda.Ptr { return to + cuda.Ptr(4*i*rows) }
	p.start, p.end, p.pagesAt, p.pages = at(0), at(1), at(2), at(4)
	return p
}

// launchOf is a launch of addresses, integers and float32 numbers.
func launchOf(k cuda.Kernel, x, y, z, threads, shared int, args ...any) *cuda.Launch {
	l := &cuda.Launch{Kernel: k, Grid: [3]uint32{uint32(x), uint32(y), uint32(z)}, Block: [3]uint32{uint32(threads), 1, 1}, Shared: uint32(shared)}
	for _, a := range args {
		switch a := a.(type) {
		case cuda.Ptr:
			l.Args = append(l.Args, uint64(a))
		case int:
			l.Args = append(l.Args, uint64(a))
		case float64:
			l.Args = append(l.Args, uint64(math.Float32bits(float32(a))))
		default:
			panic(fmt.Sprintf("an argument of type %T", a))
		}
	}
	return l
}
