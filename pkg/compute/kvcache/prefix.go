package kvcache

import (
	"cmp"

	"container/list"
	"crypto/sha256"
	"encoding/binary"
)

// A sequence that begins with the tokens of another one needs not compute their keys and values
// again: it may have the same pages (prefix caching: Zheng et al. 2024, "SGLang", section 3;
// pages by a chain of hashes as in Kwon et al. 2023, "PagedAttention", section 4.4). A page is offered
// when all its positions are computed; from then on it never changes. Each table counts a shared page
// as if it had it alone, so that what tables have reserved is always there. Pages that no table has
// stay until their memory is needed: the tenant loses one that has most for its weight, with what its tables
// have, and of its pages the one that was unused for longest. Who runs much has the last part of what is kept
// of others only if it asks for it (Free, and not FreeFor).

// Key says what a page holds: the ids of its positions, those of all positions before, and in which
// scope they may be shared.
type Key [16]byte

// Scope returns the key before a sequence's first page; only sequences of one scope share pages.
func Scope(name string) (k Key) {
	sum := sha256.Sum256([]byte(name))
	copy(k[:], sum[:])
	return k
}

// Next returns the key of the page behind that of k; ids are its PagePositions ids.
func (k Key) Next(ids []uint32) (next Key) {
	text := append(make([]byte, 0, len(k)+4*PagePositions), k[:]...)
	for _, id := range ids {
		text = binary.LittleEndian.AppendUint32(text, id)
	}
	sum := sha256.Sum256(text)
	copy(next[:], sum[:])
	return next
}

// prefixes are the pages that were offered.
type prefixes struct {
	byKey  map[Key]*page     // nil: none are taken
	owners map[string]*owner // those who have pages
}

// owner is a tenant that has pages.
type owner struct {
	name   string
	weight float64
	tables int       // pages that its tables have reserved
	idle   list.List // pages that no table has, the one unused for longest first
}

// has returns how much an owner has for its weight.
func (o *owner) has() float64 { return float64(o.tables+o.idle.Len()) / o.weight }

// keptPart is which part of a pool's pages is kept of those who have less than the one who asks.
const keptPart = 8

// keptBeside returns how many pages are kept of owners that have less for their weight than one.
func (s *prefixes) keptBeside(name string) (pages int) {
	most := 0.0
	if o := s.owners[name]; o != nil {
		most = o.has()
	}
	for _, o := range s.owners {
		if o.name != name && o.has() < most {
			pages += o.idle.Len()
		}
	}
	return pages
}

// owner returns the owner of a name. Its weight is the newest; 0 is 1.
func (s *prefixes) owner(name string, weight float64) *owner {
	o := s.owners[name]
	if o == nil {
		o = &owner{name: name}
		s.remember(o)
	}
	if o.weight = weight; weight <= 0 {
		o.weight = 1
	}
	return o
}

func (s *prefixes) remember(o *owner) {
	if s.owners == nil {
		s.owners = map[string]*owner{}
	}
	s.owners[o.name] = o
}

// forget forgets an owner that has nothing any more.
func (s *prefixes) forget(o *owner) {
	if o.tables == 0 && o.idle.Len() == 0 && s.owners[o.name] == o {
		delete(s.owners, o.name)
	}
}

// SharePrefixes has tables share pages from now on, and reports whether it does: not where a layer sees
// only a part of what is before it.
func (p *Pool) SharePrefixes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.groups) == 1 && p.groups[0].sight.Most() == 0 && p.prefixes.byKey == nil {
		p.prefixes.byKey = map[Key]*page{}
	}
	return p.prefixes.byKey != nil
}

// Offer offers the table's pages from the first-th on to others, one a key. All their positions are
// computed, and none is stored again.
func (t *Table) Offer(first int, keys []Key) {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range keys {
		if pg := t.pages[0][first+i]; p.prefixes.byKey != nil && !pg.offered && p.prefixes.byKey[k] == nil {
			pg.offered, pg.key, pg.owner = true, k, t.owner
			p.prefixes.byKey[k] = pg
		}
	}
}

// Begin has an empty table begin with pages that were offered, as far as there is one for each key. It
// says how many positions they hold.
func (t *Table) Begin(keys []Key) (positions int) {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, k := range keys[:min(len(keys), len(t.pages[0]))] {
		pg := p.prefixes.byKey[k]
		if pg == nil {
			break
		}
		p.prefixes.use(pg)
		t.pages[0][n] = pg
		n++
	}
	t.held[0] = span{0, max(n, t.held[0].end)}
	return n * PagePositions
}

// Renew gives all pages back, and keeps what the table has reserved: its positions are to be computed
// in another way.
func (t *Table) Renew() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	t.empty()
}

// use has one more table have a page that was offered.
func (s *prefixes) use(pg *page) {
	if pg.tables == 0 {
		pg.owner.idle.Remove(pg.idle)
		pg.idle = nil
		s.forget(pg.owner)
	}
	pg.tables++
}

// keep keeps a page that no table has any more, if it was offered.
func (s *prefixes) keep(pg *page) (kept bool) {
	if pg.offered {
		if o := s.owners[pg.owner.name]; o != nil {
			pg.owner = o
		} else {
			s.remember(pg.owner) // it had nothing else meanwhile
		}
		pg.idle = pg.owner.idle.PushBack(pg)
	}
	return pg.offered
}

// evict takes out the page that is unused for longest of the owner that has most; nil: there is none.
func (s *prefixes) evict() *page {
	var most *owner
	for _, o := range s.owners {
		if o.idle.Len() > 0 && (most == nil || cmp.Or(cmp.Compare(o.has(), most.has()), cmp.Compare(o.name, most.name)) > 0) {
			most = o
		}
	}
	if most == nil {
		return nil
	}
	pg, _ := most.idle.Remove(most.idle.Front()).(*page)
	delete(s.byKey, pg.key)
	pg.offered, pg.idle, pg.owner = false, nil, nil
	s.forget(most)
	return pg
}
