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
	if idle := p.idle(); len(idle) != 0 {
		t.Errorf("%d pages are idle and taken", len(idle))
	}
}

// idle are the offered pages that no table has.
func (p *Pool) idle() (all []*page) {
	for _, o := range p.prefixes.owners {
		for e := o.idle.Front(); e != nil; e = e.Next() {
			pg, _ := e.Value.(*page)
			all = append(all, pg)
		}
	}
	return all
}

// keep has a tenant compute so many pages that it does not keep itself.
func keep(t *testing.T, p *Pool, tenant string, weight float64, first uint32, pages int) []Key {
	t.Helper()
	ids := make([]uint32, pages*PagePositions)
	for i := range ids {
		ids[i] = first + uint32(i)
	}
	table, err := p.ReserveFor(tenant, weight, len(ids))
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(tenant, ids)
	begun := table.Begin(keys)
	table.Span(begun, len(ids))
	table.Offer(begun/PagePositions, keys[begun/PagePositions:])
	table.Release()
	return keys
}

// begun is how many of the pages are still there.
func begun(t *testing.T, p *Pool, keys []Key) int {
	t.Helper()
	table, err := p.Reserve(len(keys) * PagePositions)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	return table.Begin(keys) / PagePositions
}

// A tenant that has most for its weight loses what is kept of it, and of that what is unused for longest.
func TestTenantsKeepTheirShare(t *testing.T) {
	for name, tc := range map[string]struct {
		weight float64 // of the one with many prompts
		kept   int     // of the other one's 13 pages
	}{"of a tenant that asks twenty times more": {1, 13}, "of one with a weight": {3, 13}, "that is worth much more": {64, 0}} {
		t.Run(name, func(t *testing.T) {
			p := pool(t, 64)
			p.SharePrefixes()
			busy, err := p.Reserve(1) // an idle pool keeps little
			if err != nil {
				t.Fatal(err)
			}
			defer busy.Release()
			one := keep(t, p, "one", 1, 0, 13)
			var many [][]Key
			for i := range 20 {
				many = append(many, keep(t, p, "many", tc.weight, uint32(10_000*(i+1)), 13))
			}
			if got := begun(t, p, one); got > 13 || got < tc.kept || tc.kept < 13 && got > tc.kept {
				t.Errorf("%d of 13 pages are kept", got)
			}
			if got := begun(t, p, many[19]); got != 13 {
				t.Errorf("%d of the other one's newest 13", got)
			}
			if got := begun(t, p, many[0]); got != 0 {
				t.Errorf("%d of its oldest", got)
			}
		})
	}
}

// What is kept of who has less is not free for who has more, as far as an eighth goes; it is for others.
func TestFreeFor(t *testing.T) {
	p := pool(t, 64)
	p.SharePrefixes()
	large, err := p.ReserveFor("large", 1, 16*PagePositions)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, p, "one", 1, 0, 5)
	for tenant, want := range map[string]int{"large": 43, "one": 48, "new": 48} {
		if got := p.FreeFor(tenant); got != want {
			t.Errorf("%d pages are free for %s, want %d", got, tenant, want)
		}
	}
	keep(t, p, "one", 1, 1000, 7)
	if got := p.FreeFor("large"); got != 40 {
		t.Errorf("%d pages are free, want all but an eighth of 64", got)
	}
	if got := p.Share("large"); got != 16 || p.Share("one") != 0 {
		t.Errorf("shares %v and %v", got, p.Share("one"))
	}
	keep(t, p, "one", 0.5, 2000, 4) // 16 pages, of half a weight
	if got := p.FreeFor("large"); got != 48 {
		t.Errorf("%d pages are free beside one who has more", got)
	}
	large.Release()
	if len(p.prefixes.owners) != 1 {
		t.Errorf("%d owners, one has pages", len(p.prefixes.owners))
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
	tenant := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
	table, err := s.pool.ReserveFor(tenant, float64(rapid.IntRange(0, 3).Draw(t, "weight")), len(of.ids))
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
	tables := 0
	for name, o := range s.pool.prefixes.owners {
		if tables += o.tables; o.name != name || o.tables == 0 && o.idle.Len() == 0 || o.weight <= 0 {
			t.Fatalf("%q of weight %v has %d pages, and %d are kept of it", o.name, o.weight, o.tables, o.idle.Len())
		}
	}
	if tables != used {
		t.Fatalf("owners have %d pages, tables %d", tables, used)
	}
	pages := len(has) + len(s.pool.free[0]) + len(s.pool.idle())
	if int64(pages)*s.pool.shape.PageBytes() != s.pool.made || pages > s.pool.Capacity() {
		t.Fatalf("%d pages exist, %d bytes are counted, %d pages are allowed", pages, s.pool.made, s.pool.Capacity())
	}
	for _, pg := range s.pool.idle() {
		if has[pg] > 0 || !pg.offered || s.pool.byKey[pg.key] != pg {
			t.Fatal("an idle page is in use, or cannot be found")
		}
	}
}
