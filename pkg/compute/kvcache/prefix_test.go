package kvcache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// keysOf are the keys of the full pages of ids.
func keysOf(scope string, ids []uint32) (keys []Key) {
	k := Scope(scope)
	for ; len(ids) >= PagePositions; ids = ids[PagePositions:] {
		k = k.Next(ids[:PagePositions])
		keys = append(keys, k)
	}
	return keys
}

func TestKeys(t *testing.T) {
	ids := make([]uint32, 3*PagePositions)
	a := keysOf("a", ids)
	if a[0] == a[1] || a[1] == a[2] {
		t.Error("equal pages behind different ones have one key")
	}
	if b := keysOf("b", ids); a[0] == b[0] || a[2] == b[2] {
		t.Error("two scopes share keys")
	}
	ids[PagePositions] = 1
	if c := keysOf("a", ids); c[0] != a[0] || c[1] == a[1] || c[2] == a[2] {
		t.Error("another id in the second page changes the keys from there on, and no other")
	}
}

// A table begins with what others have stored, as far as it is there, and stores behind it.
func TestBegin(t *testing.T) {
	p := pool(t, 9)
	other, err := p.Reserve(1) // an idle pool keeps little
	if err != nil {
		t.Fatal(err)
	}
	other.Span(0, 1)
	if !p.SharePrefixes() {
		t.Fatal("layers that see everything share nothing")
	}
	const length = 2*cpu.PagePositions + 5
	ids := make([]uint32, length)
	first, err := p.Reserve(length)
	if err != nil {
		t.Fatal(err)
	}
	store(first, 1, length)
	first.Offer(0, keysOf("x", ids))
	for _, released := range []bool{false, true} {
		if released {
			first.Release()
		}
		second, err := p.Reserve(length)
		if err != nil {
			t.Fatal(err)
		}
		if got := second.Begin(keysOf("y", ids)); got != 0 {
			t.Errorf("another scope begins with %d positions", got)
		}
		if got := second.Begin(keysOf("x", ids)); got != 2*cpu.PagePositions {
			t.Fatalf("released %v: it begins with %d positions", released, got)
		}
		second.Span(2*cpu.PagePositions, length)
		checkStored(t, second, 1, 2*cpu.PagePositions)
		second.Release()
	}
	third, err := p.Reserve(8 * cpu.PagePositions) // all memory
	if err != nil {
		t.Fatal(err)
	}
	store(third, 3, 8*cpu.PagePositions)
	checkStored(t, third, 3, 8*cpu.PagePositions)
	third.Release()
	fourth, err := p.Reserve(length)
	if err != nil {
		t.Fatal(err)
	}
	if got := fourth.Begin(keysOf("x", ids)); got != 0 {
		t.Errorf("pages that others have stored in begin with %d positions", got)
	}
}

// Pages of layers that do not see everything are not shared.
func TestWindowsShareNothing(t *testing.T) {
	p, err := NewPool(Shape{Layers: []LayerShape{{Heads: 1, KeyDim: 2, ValueDim: 2, Sight: model.Sight{Window: 16}}}}, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	if p.SharePrefixes() {
		t.Error("a window's pages are shared")
	}
	table, err := p.Reserve(2 * PagePositions)
	if err != nil {
		t.Fatal(err)
	}
	table.Span(PagePositions, 2*PagePositions)
	table.Offer(1, keysOf("x", make([]uint32, PagePositions)))
	if got := table.Begin(keysOf("x", make([]uint32, PagePositions))); got != 0 {
		t.Errorf("%d positions", got)
	}
}

// A device's pages are shared like others.
func TestDeviceShares(t *testing.T) {
	p, err := NewDevicePool(shape, []uint64{100, 200})
	if err != nil {
		t.Fatal(err)
	}
	p.SharePrefixes()
	ids := make([]uint32, 2*PagePositions)
	first, err := p.Reserve(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	first.Span(0, len(ids))
	first.Offer(0, keysOf("x", ids))
	want := first.Addresses(nil, 0, len(ids))
	first.Release()
	second, err := p.Reserve(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	if n := second.Begin(keysOf("x", ids)); n != len(ids) {
		t.Fatalf("%d positions", n)
	}
	if got := second.Addresses(nil, 0, len(ids)); got[0] != want[0] || got[1] != want[1] {
		t.Errorf("pages at %v, want %v", got, want)
	}
	second.Release()
	third, err := p.Reserve(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	third.Span(0, len(ids)) // takes them
	if n := second.pool.prefixes.idle.Len(); n != 0 {
		t.Errorf("%d pages are idle and taken", n)
	}
}

// sharing checks a pool against what its tables were told to hold.
type sharing struct {
	pool *Pool
	all  []*sharer
}

// sharer is a sequence: its table, its ids, and how many of its pages are stored.
type sharer struct {
	*Table
	ids  []uint32
	full int
}

// Whatever tables share, store and give back: each has in its pages what it stored or what another one
// with the same ids did, no page is in two places, and no more memory is taken than there is.
func TestSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPool(shape, rapid.Int64Range(2, 9).Draw(t, "pages")*shape.PageBytes())
		if err != nil {
			t.Fatal(err)
		}
		p.SharePrefixes()
		s := &sharing{pool: p}
		t.Repeat(map[string]func(*rapid.T){"begin": s.begin, "store": s.store, "renew": s.renew, "release": s.release, "": s.check})
	})
}

func (s *sharing) pick(t *rapid.T) *sharer {
	if len(s.all) == 0 {
		t.Skip("no table")
	}
	return rapid.SampledFrom(s.all).Draw(t, "table")
}

func (s *sharing) begin(t *rapid.T) {
	pages := rapid.SliceOfN(rapid.Uint32Range(0, 2), 1, 4).Draw(t, "ids")
	of := &sharer{}
	for _, id := range pages {
		for range PagePositions {
			of.ids = append(of.ids, id)
		}
	}
	table, err := s.pool.Reserve(len(of.ids))
	if err != nil {
		t.Skip(err)
	}
	of.Table, of.full = table, table.Begin(keysOf("x", of.ids))/PagePositions
	s.all = append(s.all, of)
}

func (s *sharing) store(t *rapid.T) {
	of := s.pick(t)
	if of.full == len(of.ids)/PagePositions {
		t.Skip("full")
	}
	of.Span(of.full*PagePositions, (of.full+1)*PagePositions)
	of.pages[0][of.full].data[0] = s.mark(of, of.full)
	of.full++
	of.Offer(of.full-1, keysOf("x", of.ids)[of.full-1:of.full])
}

// mark is what a page holds of certain ids.
func (*sharing) mark(of *sharer, page int) (m float32) {
	m = 1
	for i := range page + 1 {
		m = 3*m + float32(of.ids[i*PagePositions])
	}
	return m
}

func (s *sharing) renew(t *rapid.T) {
	of := s.pick(t)
	of.Renew()
	of.full = 0
}

func (s *sharing) release(t *rapid.T) {
	of := s.pick(t)
	of.Release()
	s.all = slices.DeleteFunc(s.all, func(o *sharer) bool { return o == of })
}

func (s *sharing) check(t *rapid.T) {
	has, used := map[*page]int{}, 0
	for _, of := range s.all {
		used += of.Reserved()
		for i := range of.full {
			pg := of.pages[0][i]
			if has[pg]++; pg.data[0] != s.mark(of, i) {
				t.Fatalf("page %d has %v, want %v", i, pg.data[0], s.mark(of, i))
			}
		}
	}
	if used != s.pool.Used() {
		t.Fatalf("%d pages are used, want %d", s.pool.Used(), used)
	}
	for pg, n := range has {
		if pg.tables != n || pg.idle != nil {
			t.Fatalf("a page of %d tables counts %d", n, pg.tables)
		}
	}
	pages := len(has) + len(s.pool.free[0]) + s.pool.prefixes.idle.Len()
	if int64(pages)*s.pool.shape.PageBytes() != s.pool.made || pages > s.pool.Capacity() {
		t.Fatalf("%d pages exist, %d bytes are counted, %d pages are allowed", pages, s.pool.made, s.pool.Capacity())
	}
	for e := s.pool.prefixes.idle.Front(); e != nil; e = e.Next() {
		if pg, _ := e.Value.(*page); has[pg] > 0 || !pg.offered || s.pool.byKey[pg.key] != pg {
			t.Fatal("an idle page is in use, or cannot be found")
		}
	}
}
