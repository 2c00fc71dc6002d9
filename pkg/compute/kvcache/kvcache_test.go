package kvcache

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

const layers, heads, width = 2, 3, 4

var shape = uniform(layers, heads, width)

// uniform returns the shape of layers that are all alike and keep everything.
func uniform(layers, heads, dim int) Shape {
	return Shape{Layers: slices.Repeat([]LayerShape{{Heads: heads, KeyDim: dim, ValueDim: dim}}, layers)}
}

func pool(t testing.TB, pages int64) *Pool {
	t.Helper()
	p, err := NewPool(shape, pages*shape.PageBytes()+shape.PageBytes()-1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPages(t *testing.T) {
	if got, want := shape.PageBytes(), int64(2*3*2*4*cpu.PagePositions*4); got != want {
		t.Errorf("a page of %d bytes, want %d", got, want)
	}
	for positions, want := range map[int]int{0: 0, 1: 1, cpu.PagePositions: 1, cpu.PagePositions + 1: 2, 10 * cpu.PagePositions: 10} {
		if got := PagesFor(positions); got != want {
			t.Errorf("%d positions: %d pages, want %d", positions, got, want)
		}
	}
}

func TestBudgetBelowOnePage(t *testing.T) {
	if _, err := NewPool(shape, shape.PageBytes()-1); err == nil || !strings.Contains(err.Error(), "raise it") {
		t.Errorf("%v, want what to do", err)
	}
}

// books is a pool beside what it should have given out.
type books struct {
	pool   *Pool
	tables []*Table
	pages  int
}

func (b *books) reserve(t *rapid.T) {
	positions := rapid.IntRange(0, 6*cpu.PagePositions).Draw(t, "positions")
	table, err := b.pool.Reserve(positions)
	if fits := b.pages+b.pool.Need(positions) <= b.pool.Capacity(); fits != (err == nil) || !fits && !errors.Is(err, ErrFull) {
		t.Fatalf("%d positions with %d of %d pages taken: %v", positions, b.pages, b.pool.Capacity(), err)
	}
	if err != nil {
		return
	}
	if table.Positions() < positions || table.Positions() >= positions+cpu.PagePositions {
		t.Fatalf("%d positions got room for %d", positions, table.Positions())
	}
	if positions > 0 {
		end := rapid.IntRange(1, positions).Draw(t, "end")
		table.Span(rapid.IntRange(0, end-1).Draw(t, "from"), end)
	}
	b.tables, b.pages = append(b.tables, table), b.pages+b.pool.Need(positions)
}

func (b *books) grow(t *rapid.T) {
	if len(b.tables) == 0 {
		t.Skip("nothing to grow")
	}
	table, positions := rapid.SampledFrom(b.tables).Draw(t, "table"), rapid.IntRange(1, 9*cpu.PagePositions).Draw(t, "positions")
	before, room := table.Reserved(), table.Positions()
	more := max(0, b.pool.Need(positions)-before)
	err := table.Grow(positions)
	if fits := b.pages+more <= b.pool.Capacity(); fits != (err == nil) || !fits && !errors.Is(err, ErrFull) {
		t.Fatalf("%d more pages with %d of %d taken: %v", more, b.pages, b.pool.Capacity(), err)
	}
	switch {
	case err == nil && table.Positions() >= max(positions, room):
		table.Span(rapid.IntRange(0, positions-1).Draw(t, "from"), positions)
	case err == nil || table.Reserved() != before || table.Positions() != room:
		t.Fatalf("%d positions have room for %d, and %d pages after %d: %v", positions, table.Positions(), table.Reserved(), before, err)
	}
	b.pages += table.Reserved() - before
}

func (b *books) release(t *rapid.T) {
	if len(b.tables) == 0 {
		t.Skip("nothing to release")
	}
	i := rapid.IntRange(0, len(b.tables)-1).Draw(t, "table")
	b.pages -= b.tables[i].reserved
	b.tables[i].Release()
	b.tables[i].Release() // once more changes nothing
	b.tables = slices.Delete(b.tables, i, i+1)
}

func (b *books) check(t *rapid.T) {
	if b.pool.Used() != b.pages || b.pages > b.pool.Capacity() {
		t.Fatalf("%d pages used, want %d of %d", b.pool.Used(), b.pages, b.pool.Capacity())
	}
	owner := map[*page]int{}
	bytes := int64(0)
	for i, table := range b.tables {
		for g, pages := range table.pages {
			for _, p := range pages {
				if p == nil {
					continue
				}
				bytes += b.pool.groups[g].bytes()
				if other, taken := owner[p]; taken {
					t.Fatalf("tables %d and %d share a page", i, other)
				}
				owner[p] = i
			}
		}
	}
	for g, free := range b.pool.free {
		bytes += int64(len(free)) * b.pool.groups[g].bytes()
		for _, p := range free {
			if _, taken := owner[p]; taken {
				t.Fatal("a page in use is free, too")
			}
		}
	}
	if budget := int64(b.pool.Capacity()) * b.pool.shape.PageBytes(); bytes != b.pool.made || bytes > budget {
		t.Fatalf("%d bytes exist, %d are counted, the budget is %d", bytes, b.pool.made, budget)
	}
}

func TestReserveAndRelease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SampledFrom([]Shape{shape, mixed}).Draw(t, "shape")
		shape.Rows = rapid.SampledFrom([]int{0, 200}).Draw(t, "rows")
		p, err := NewPool(shape, rapid.Int64Range(1, 12).Draw(t, "pages")*shape.PageBytes())
		if err != nil {
			t.Fatal(err)
		}
		b := &books{pool: p}
		t.Repeat(map[string]func(*rapid.T){"reserve": b.reserve, "grow": b.grow, "release": b.release, "": b.check})
	})
}

// number is a value that belongs to one place alone.
func number(seq, layer, head, pos, dim int, value bool) float32 {
	n := (((seq*layers+layer)*heads+head)*1000+pos)*width + dim
	if value {
		return -float32(n) - 1
	}
	return float32(n) + 1
}

func vectors(seq, layer, head, pos int) (k, v []float32) {
	for dim := range width {
		k = append(k, number(seq, layer, head, pos, dim, false))
		v = append(v, number(seq, layer, head, pos, dim, true))
	}
	return k, v
}

func store(t *Table, seq, length int) {
	t.Span(0, length)
	for pos := range length {
		for layer := range layers {
			var keys, values []float32
			for head := range heads {
				k, v := vectors(seq, layer, head, pos)
				keys, values = append(keys, k...), append(values, v...)
			}
			t.Store(layer, pos, keys, values)
		}
	}
}

func checkStored(t testing.TB, table *Table, seq, length int) {
	t.Helper()
	for layer := range layers {
		pages := table.Layer(nil, layer, 0, length)
		if len(pages) != PagesFor(length) {
			t.Fatalf("%d pages for %d positions", len(pages), length)
		}
		for head := range heads {
			for pos := range length {
				k, v := vectors(seq, layer, head, pos)
				keys, slot := pages[pos/cpu.PagePositions][2*head*width*cpu.PagePositions:], pos%cpu.PagePositions
				values := keys[width*cpu.PagePositions:]
				for dim := range width {
					gotK := keys[dim*cpu.PagePositions+slot]
					gotV := values[slot*width+dim]
					if gotK != k[dim] || gotV != v[dim] {
						t.Fatalf("sequence %d, layer %d, head %d, position %d: %v and %v, want %v and %v",
							seq, layer, head, pos, gotK, gotV, k[dim], v[dim])
					}
				}
			}
		}
	}
}

// A layer in fewer bits takes fewer bytes, so that a pool has more pages, and keeps what was stored
// rounded to that.
func TestFormats(t *testing.T) {
	const dim, budget = 32, 1 << 20
	whole := uniform(1, 2, dim)
	for f, tt := range map[cpu.KVFormat]struct {
		bytes int64 // of a number, times dim
		near  float32
	}{cpu.KVF32: {4 * dim, 0}, cpu.KVBF16: {2 * dim, 0.1}, cpu.KVInt8: {dim + 4, 0.13}} {
		shape := uniform(1, 2, dim)
		shape.Layers[0].Format = f
		if want := whole.PageBytes() * tt.bytes / (4 * dim); shape.PageBytes() != want {
			t.Errorf("format %d: a page of %d bytes, want %d", f, shape.PageBytes(), want)
		}
		p, err := NewPool(shape, budget)
		if err != nil {
			t.Fatal(err)
		}
		if want := int(budget / shape.PageBytes()); p.Capacity() != want {
			t.Errorf("format %d: %d pages, want %d", f, p.Capacity(), want)
		}
		table, err := p.Reserve(40)
		if err != nil {
			t.Fatal(err)
		}
		table.Span(0, 40)
		key, value := make([]float32, dim), make([]float32, dim)
		for i := range dim {
			key[i], value[i] = float32(i)+0.001, -float32(i)-0.001
		}
		table.Store(0, 35, append(make([]float32, dim), key...), append(make([]float32, dim), value...))
		h := cpu.Heads{KV: 2, Group: 1, Dim: dim}
		out := make([]float32, 2*dim)
		cpu.AttendKept(f, nil, out, make([]float32, 2*dim), h, table.Layer(nil, 0, 32, 40), 3, 4, 1, nil, make([]float32, cpu.AttendScratch(h, 4)))
		for i, v := range out[dim:] {
			if d := v - value[i]; d > tt.near || -d > tt.near {
				t.Errorf("format %d: head 1 of position 35 has %v, of %v", f, v, value[i])
			}
		}
	}
}

// What one sequence stores is what it finds, whatever others store, and in
// pages that others had before.
func TestStoreAndLayer(t *testing.T) {
	p := pool(t, 8)
	lengths := []int{1, cpu.PagePositions, 2*cpu.PagePositions + 5}
	for round := range 2 {
		var tables []*Table
		for seq, n := range lengths {
			table, err := p.Reserve(n)
			if err != nil {
				t.Fatal(err)
			}
			store(table, 10*round+seq, n)
			tables = append(tables, table)
		}
		for seq, n := range lengths {
			checkStored(t, tables[seq], 10*round+seq, n)
			tables[seq].Release()
		}
	}
}

// Layer appends, so that callers reuse their slices.
func TestLayerAppends(t *testing.T) {
	table, err := pool(t, 4).Reserve(40)
	if err != nil {
		t.Fatal(err)
	}
	table.Span(0, 40)
	before := []float32{1}
	pages := table.Layer([][]float32{before}, 0, 0, 33)
	if len(pages) != 3 || &pages[0][0] != &before[0] {
		t.Errorf("%d pages", len(pages))
	}
	if cap(pages[1]) != len(pages[1]) {
		t.Error("an append to a layer would reach into the next")
	}
}

func TestConcurrent(t *testing.T) {
	p := pool(t, 6)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				if table, err := p.Reserve(1 + i%(3*cpu.PagePositions)); err == nil {
					table.Release()
				}
			}
		})
	}
	wg.Wait()
	if p.Used() != 0 {
		t.Errorf("%d pages are lost", p.Used())
	}
}

// A pool that nobody uses keeps a part of its memory, and the process gets the rest back.
func TestIdlePoolGivesBack(t *testing.T) {
	const pages = 64
	p, err := NewPool(shape, pages*shape.PageBytes())
	if err != nil {
		t.Fatal(err)
	}
	var tables []*Table
	for p.Free() > 0 {
		table, err := p.Reserve(PagePositions)
		if err != nil {
			t.Fatal(err)
		}
		table.Span(0, PagePositions)
		tables = append(tables, table)
	}
	made := p.made
	for i, table := range tables {
		if p.made != made {
			t.Fatalf("%d bytes of %d are left while %d sequences have some", p.made, made, len(tables)-i)
		}
		table.Release()
	}
	if most := pages * shape.PageBytes() / idleShare; p.made > most {
		t.Errorf("an idle pool keeps %d bytes, more than %d", p.made, most)
	}
}
