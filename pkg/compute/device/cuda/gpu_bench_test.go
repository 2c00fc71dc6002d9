//go:build cuda || emulate

package cuda

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// expertShape is experts with a gate, and how many rows each of them gets.
type expertShape struct {
	name                   string
	hidden, width, experts int
	rows                   []int
}

// attendShape is one layer's decoding of so many sequences, all with so many positions.
type attendShape struct {
	name                 string
	heads, kvHeads, head int
	rows, context        int
}

// latentShape is the same of latent attention.
type latentShape struct {
	name              string
	heads, rank, rope int
	rows, context     int
}

// What a layer's experts compute, against what the same GPU reads and multiplies at most. A lane
// of the device has fewer rows than the largest of these calls, and computes them in pieces.
func BenchmarkGPUExperts(b *testing.B) {
	g := openGPU(b)
	for _, s := range expertShapes {
		for f := range formats {
			by := "" // as what others make of the same has it
			if f == tiled {
				by = "/by=wgmma"
			}
			if f == tiled && g.peakWgmma == 0 {
				continue
			}
			for _, rows := range s.rows {
				b.Run(fmt.Sprintf("%s/%s/rows=%d%s", s.name, [formats]string{"bf16", "fp8", "mxfp4", "bf16"}[f], rows, by), func(b *testing.B) {
					g.experts(b, s, f, rows)
				})
			}
		}
	}
}

// mostBenchRows bounds the memory of a call.
const mostBenchRows = 8192

func (g *gpuBench) experts(b *testing.B, of expertShape, f format, rows int) {
	bytes := func(n, k, of int) int64 {
		return cuda.Aligned(matrix{n: n, k: k, format: f, refs: make([]model.Ref, of)}.bytes())
	}
	in, down := bytes(2*of.width, of.hidden, 2), bytes(of.hidden, of.width, 1)
	groups := min(of.experts, max(1, mostBenchRows/rows))
	s := shape{
		hidden: of.hidden, width: of.width, parts: 1, slot: in + down,
		rows: groups * rows, layers: []layer{{width: of.width, format: f, gated: true}},
	}
	weights := g.room(b, int64(groups)*s.slot)
	var needed [formats]bool
	needed[f] = true
	k, err := kernelsIn(g.module, g.driver.Info(), needed, s.parts)
	if err != nil {
		b.Fatal(err)
	}
	arena, err := cuda.NewArena(g.driver, int64(s.rows)*int64(12*s.hidden+2*padded(s.hidden)+2*padded(s.width)+64)+1<<20, "a benchmark")
	if err != nil {
		b.Skip(err)
	}
	defer arena.Close() //nolint:errcheck // the driver has said what is wrong with it
	l, err := newLane(g.driver, arena, k, s, g.health)
	if err != nil {
		b.Fatal(err)
	}
	defer l.close(false)
	c := &l.call
	for e := range groups {
		at := weights + cuda.Ptr(int64(e)*s.slot)
		c.groups = append(c.groups, group{expert: &expert{in: at, down: at + cuda.Ptr(in)}, from: e * rows, to: (e + 1) * rows})
	}
	for i := range s.rows {
		c.order, c.sources = append(c.order, int32(i)), append(c.sources, uint32(i))
		c.weights, c.rows = append(c.weights, 1), append(c.rows, uint32(i))
	}
	c.longest = rows
	c.cut(k.variantFor(f, rows).tile)
	c.tables = tablesOf(groups, len(c.tiles), s.rows, s.rows, s.hidden, false)
	c.write(l.in, forward.Routed{X: spread(s.rows * s.hidden)}, s.hidden)
	l.launch.fill(k, s, &l.buffers, c)
	g.do(b, g.stream.CopyIn(l.buffers.upload, l.in[:c.tables.end]))
	g.compare(b, float64(groups)*float64(s.slot), 6*float64(s.rows)*float64(of.hidden)*float64(of.width), &l.launch.split, &l.launch.in, &l.launch.down)
}

// spread is so many numbers from -1 to 1: GPUs multiply zeros faster than others.
func spread(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(int32(uint32(i)*2654435761)) / (1 << 31)
	}
	return x
}

// Reading the keys and values of many sequences for one token of each, against what the GPU reads.
func BenchmarkGPUAttend(b *testing.B) {
	g := openGPU(b)
	for _, s := range attendShapes {
		b.Run(s.name, func(b *testing.B) {
			w := paddedHead(s.head)
			p := g.paged(b, s.rows, s.context, int64(128*w*s.kvHeads), s.heads*s.head, s.heads*(w+2))
			share := ceil(s.heads/s.kvHeads, 16)
			split := launchOf(g.kernel(b, fmt.Sprintf("attend_split_p1_w%d", w), 256*w), p.splits, s.kvHeads*share, s.rows, 32, 256*w,
				p.part, p.q, p.start, p.end, p.pagesAt, p.pages, 0, s.heads, s.kvHeads, s.head, s.heads*s.head, p.splits, 0.1)
			merge := launchOf(g.kernel(b, fmt.Sprintf("attend_merge_w%d", w), 0), s.heads, s.rows, 1, w, 0,
				p.q, p.part, p.start, p.end, 0, s.heads, s.head, s.heads*s.head, p.splits)
			g.compare(b, p.bytes, 4*float64(s.rows*s.context)*float64(s.heads*s.head), split, merge)
		})
	}
	for _, s := range latentShapes {
		b.Run(s.name, func(b *testing.B) {
			r, c := latentRank(s.rank), s.rank+s.rope
			w := padded(max(c, r))
			p := g.paged(b, s.rows, s.context, int64(64*w), s.heads*c, s.heads*(r+2))
			split := launchOf(g.kernel(b, fmt.Sprintf("attend_latent_p1_r%d", r), 160*w+2048), p.splits, ceil(s.heads, 16), s.rows, 128, 160*w+2048,
				p.part, p.q, p.start, p.end, p.pagesAt, p.pages, 0, s.heads, c, w, s.heads*c, p.splits, 0.1)
			merge := launchOf(g.kernel(b, fmt.Sprintf("attend_merge_w%d", r), 0), s.heads, s.rows, 1, r, 0,
				p.q, p.part, p.start, p.end, 0, s.heads, s.rank, s.heads*s.rank, p.splits)
			g.compare(b, p.bytes, 2*float64(s.rows*s.context)*float64(s.heads*(c+s.rank)), split, merge)
		})
	}
}

// A step of so many sequences through all layers of attention, without experts and the LM head, by
// graphs and by launches one by one.
func BenchmarkGPUSteps(b *testing.B) {
	m, err := model.Synthetic(stepModel, 7)
	if err != nil {
		b.Fatal(err)
	}
	p := pool.New(1)
	b.Cleanup(p.Close)
	for _, rows := range stepRows {
		for _, graphs := range []string{"on", "off"} {
			b.Run(fmt.Sprintf("%s/rows=%d/graphs=%s", stepModel, rows, graphs), func(b *testing.B) {
				benchSteps(b, m, p, BackboneSettings{Memory: stepMemory, Parts: 1, Positions: 512, Rows: rows, Lanes: 1, NoGraphs: graphs == "off"})
			})
		}
	}
}

func benchSteps(b *testing.B, m *model.Model, p *pool.Pool, s BackboneSettings) {
	b.Helper()
	on, err := OpenBackbone(b.Context(), m, p, realKernels(b), images, s)
	if err != nil {
		b.Fatal(err)
	}
	defer on.Close()
	kv, err := forward.NewBackbone(&m.Spec, on).NewPool(s.Rows, 0)
	if err != nil {
		b.Fatal(err)
	}
	lane, err := on.Lane(nil)
	if err != nil {
		b.Fatal(err)
	}
	var rows []forward.Row
	for range s.Rows {
		table, err := kv.Reserve(1)
		if err != nil {
			b.Fatal(err)
		}
		defer table.Release()
		table.Span(0, 1)
		rows = append(rows, forward.Row{Table: table})
	}
	for range 2 { // the second step captures
		if err := through(lane, m, rows); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := through(lane, m, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// Making one expert of a random model on the GPU, against what that reads at most.
func BenchmarkGPURandom(b *testing.B) {
	g := openGPU(b)
	for _, s := range expertShapes {
		b.Run(s.name+"/rows", func(b *testing.B) { g.random(b, s, bf16) })
		b.Run(s.name+"/tiles", func(b *testing.B) { g.random(b, s, tiled) })
	}
}

func (g *gpuBench) random(b *testing.B, of expertShape, f format) {
	b.Helper()
	r := &random{kernel: g.kernel(b, "random_weights", 0), numbers: map[float64]cuda.Ptr{1: g.room(b, numbersBytes)}}
	in := matrix{n: 2 * of.width, k: of.hidden, format: f, refs: make([]model.Ref, 2)}
	down := matrix{n: of.hidden, k: of.width, format: f, refs: make([]model.Ref, 1)}
	to := g.room(b, in.bytes()+down.bytes())
	half := model.Random{Deviation: 1, Rows: of.width, Columns: of.hidden}
	launches := []*cuda.Launch{
		r.launch(in, to, half, 0, 0), r.launch(in, to, half, 1, of.width),
		r.launch(down, to+cuda.Ptr(in.bytes()), model.Random{Deviation: 1, Rows: of.hidden, Columns: of.width}, 0, 0),
	}
	b.ResetTimer()
	seconds := g.time(b, b.N, g.started(launches))
	bytes := float64(in.bytes() + down.bytes())
	b.ReportMetric(seconds*1e9, "ns/op") // without the first one
	b.ReportMetric(bytes/seconds/1e9, "GB/s")
	b.ReportMetric(100*bytes/seconds/g.read, "%read")
}

// Bringing one expert to the GPU: from pinned memory, and as a load does, from ordinary memory
// through two pinned buffers. Both against one copy of much pinned memory.
func BenchmarkGPUCopies(b *testing.B) {
	g := openGPU(b)
	to := g.room(b, copiedAtOnce)
	pinned, err := g.driver.Pin(copiedAtOnce)
	if err != nil {
		b.Fatal(err)
	}
	defer g.driver.Unpin(pinned) //nolint:errcheck // the driver has said what is wrong with it
	copied := func(size int) func() error {
		return func() error { return g.stream.CopyIn(to, pinned[:size]) }
	}
	rate := float64(copiedAtOnce) / g.time(b, 8, copied(len(pinned)))
	for _, s := range expertShapes {
		size := 6 * s.hidden * s.width
		b.Run("pinned/"+s.name, func(b *testing.B) {
			b.ResetTimer()
			g.copies(b, size, g.time(b, b.N, copied(size)), rate)
		})
		b.Run("load/"+s.name, func(b *testing.B) {
			load := g.load(b, to, size)
			b.ResetTimer()
			g.copies(b, size, g.time(b, b.N, load), rate)
		})
	}
}

// load is a load of so many bytes.
func (g *gpuBench) load(b *testing.B, to cuda.Ptr, size int) func() error {
	b.Helper()
	w, err := newWay(g.driver, min(int64(size), wayBytes), g.health)
	g.do(b, err)
	b.Cleanup(func() { w.close(false) })
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i) // memory that was never written is one page, again and again
	}
	return func() error {
		return w.over(b.Context(), func(w *way) { w.to = to; w.write(data) })
	}
}

// copies sets the seconds that so many bytes take beside the rate of pinned memory.
func (g *gpuBench) copies(b *testing.B, size int, seconds, rate float64) {
	b.Helper()
	b.ReportMetric(seconds*1e9, "ns/op") // without the first one
	b.ReportMetric(float64(size)/seconds/1e9, "GB/s")
	b.ReportMetric(100*float64(size)/seconds/rate, "%copy")
}
