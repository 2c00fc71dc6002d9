package kvcache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// mixed has layers that see 16 positions, a chunk of 64, and all.
var mixed = Shape{Layers: []LayerShape{
	{Heads: 1, KeyDim: 2, ValueDim: 2, Sight: model.Sight{Window: 16}},
	{Heads: 2, KeyDim: 2, ValueDim: 2},
	{Heads: 1, KeyDim: 2, ValueDim: 2, Sight: model.Sight{Chunk: 64}},
	{Heads: 1, KeyDim: 2, ValueDim: 2, Sight: model.Sight{Window: 16}},
}}

// A long sequence holds what its windows and chunks see, and no more; what was
// reserved for it is enough.
func TestWindows(t *testing.T) {
	shape := mixed
	shape.Rows = 1
	const length = 40 * cpu.PagePositions
	p, err := NewPool(shape, int64(shape.Need(length))*shape.PageBytes())
	if err != nil {
		t.Fatal(err)
	}
	table, err := p.Reserve(length)
	if err != nil {
		t.Fatal(err)
	}
	for pos := range length {
		table.Span(pos, pos+1)
	}
	if window, all, chunk := table.Pages(0), table.Pages(1), table.Pages(2); window != 1 || all != 40 || chunk != 2 {
		t.Errorf("%d pages of a window of 16, %d of all, %d of chunks of 64", window, all, chunk)
	}
	if full := (Shape{Layers: shape.Layers}).Need(length); full != 40 || shape.Need(length) >= full*2/3 {
		t.Errorf("%d pages are reserved, %d where any number of rows may come at once", shape.Need(length), full)
	}
	table.Release()
	if p.Used() != 0 || p.Free() != p.Capacity() {
		t.Errorf("%d of %d pages are used", p.Used(), p.Capacity())
	}
}

// Whatever the steps, each row finds what it sees, also when a sequence begins anew.
func TestWindowsKeepWhatIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := mixed
		shape.Rows = rapid.IntRange(1, 80).Draw(t, "rows")
		const length = 300
		p, err := NewPool(shape, int64(shape.Need(length))*shape.PageBytes())
		if err != nil {
			t.Fatal(err)
		}
		table, err := p.Reserve(length)
		if err != nil {
			t.Fatal(err)
		}
		w := walk{t: t, table: table, shape: shape}
		for from := 0; from < length; {
			end := min(length, from+rapid.IntRange(1, shape.Rows).Draw(t, "step"))
			w.step(from, end)
			from = end
			if rapid.IntRange(0, 9).Draw(t, "again") == 0 && w.round < 3 {
				from, w.round = 0, w.round+1
			}
		}
	})
}

// walk takes a sequence through its steps.
type walk struct {
	t     *rapid.T
	table *Table
	shape Shape
	round int
}

func (w *walk) key(layer, pos int) float32 { return float32(1000*(4*w.round+layer) + pos) }

func (w *walk) step(from, end int) {
	w.table.Span(from, end)
	for pos := from; pos < end; pos++ {
		for layer := range w.shape.Layers {
			k, of := w.key(layer, pos), w.shape.Layers[layer]
			w.table.Store(layer, pos, slices.Repeat([]float32{k}, of.Heads*of.KeyDim), slices.Repeat([]float32{-k}, of.Heads*of.ValueDim))
		}
	}
	for pos := from; pos < end; pos++ {
		for layer, l := range w.shape.Layers {
			first := l.Sight.First(pos)
			pages := w.table.Layer(nil, layer, first, pos+1)
			for seen := first; seen <= pos; seen++ {
				if got := pages[seen/cpu.PagePositions-first/cpu.PagePositions][seen%cpu.PagePositions]; got != w.key(layer, seen) {
					w.t.Fatalf("layer %d, position %d: %v of position %d, want %v", layer, pos, got, seen, w.key(layer, seen))
				}
			}
		}
	}
	if w.table.Span(end, end); w.table.pool.made > int64(w.table.pool.capacity)*w.shape.PageBytes() {
		w.t.Fatalf("%d bytes are made of %d pages", w.table.pool.made, w.table.pool.capacity)
	}
}
