package expertmap

import (
	"hash/crc32"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// part is a set of maps that is searched whole: a tenant's, or all of a shared store.
type part struct {
	Settings
	place int // in Store.slots

	embeddings *cpu.Table
	layers     []*cpu.Table
	// Squares of norms: of embeddings by slot, of layers by layer and slot.
	embeddingNorms []float32
	norms          [][]float32

	slotted
	owners []owner
	clock  uint64 // rises with each change
	count  int    // maps; they have the first slots

	near *nearest // of KCentre; nil until it is needed

	encoded []byte
	decoded []float32
	x, out  []float32 // of products
}

// slotted is what each slot has beside its map.
type slotted struct {
	added   []uint64  // the clock then
	changed []uint64  // the clock then
	uses    []uint32  // how often a search found it; atomic
	sums    []uint32  // of the bytes of the embedding as it is held
	owner   []int32   // index of owners
	whole   []float64 // square of the norm of all layers
}

// slotBytes is slotted's memory of one slot.
const slotBytes = 8 + 8 + 4 + 4 + 4 + 8

// owner is a tenant with so many maps; with none the place is free.
type owner struct {
	name string
	maps int
}

func newPart(s Settings) *part {
	p := &part{Settings: s, decoded: make([]float32, max(s.Embedding, s.Experts))}
	if s.Embedding > 0 {
		p.embeddings = cpu.NewTable(s.Embedding, formats[s.Embeddings])
	}
	for range s.Layers {
		p.layers = append(p.layers, cpu.NewTable(s.Experts, formats[s.Maps]))
	}
	p.norms = make([][]float32, s.Layers)
	return p
}

func (p *part) bytes() int64 {
	n := int64(len(p.added)) * slotBytes
	for l, t := range p.layers {
		n += t.Matrix().Bytes() + 4*int64(len(p.norms[l]))
	}
	if p.embeddings != nil {
		n += p.embeddings.Matrix().Bytes() + 4*int64(len(p.embeddingNorms))
	}
	return n
}

func (p *part) knows(tenant string) bool {
	return slices.ContainsFunc(p.owners, func(o owner) bool { return o.maps > 0 && o.name == tenant })
}

// known is how many tenants have maps here.
func (p *part) known() (n int) {
	for _, o := range p.owners {
		if o.maps > 0 {
			n++
		}
	}
	return n
}

// ownerOf is the tenant's index of owners, made if there is none.
func (p *part) ownerOf(tenant string) int32 {
	i := slices.IndexFunc(p.owners, func(o owner) bool { return o.maps > 0 && o.name == tenant })
	if i < 0 {
		i = slices.IndexFunc(p.owners, func(o owner) bool { return o.maps == 0 })
	}
	if i < 0 {
		i, p.owners = len(p.owners), append(p.owners, owner{})
	}
	p.owners[i].name = tenant
	return int32(i)
}

// free is the next slot without a map, if there may be another one.
func (p *part) free() (slot int, ok bool) {
	if p.count >= p.Capacity {
		return 0, false
	}
	p.grow(p.count + 1)
	p.count++
	return p.count - 1, true
}

// grow makes room for so many slots: twice as many as there were, within the capacity.
func (p *part) grow(slots int) {
	have := len(p.added)
	if slots <= have {
		return
	}
	n := min(max(slots, 2*have, cpu.PanelWidth), p.Capacity)
	if p.embeddings != nil {
		p.embeddings.Grow(n)
		p.embeddingNorms = longer(p.embeddingNorms, n)
	}
	for l, t := range p.layers {
		t.Grow(n)
		p.norms[l] = longer(p.norms[l], n)
	}
	p.added, p.changed, p.uses = longer(p.added, n), longer(p.changed, n), longer(p.uses, n)
	p.sums, p.owner, p.whole = longer(p.sums, n), longer(p.owner, n), longer(p.whole, n)
}

// longer is s with zeros up to n values, and no room beyond.
func longer[T any](s []T, n int) []T {
	all := make([]T, n)
	copy(all, s)
	return all
}

// put writes an owner's newest map into a slot, whose map, if it has one, goes.
func (p *part) put(slot int, who int32, m Map) {
	if p.embeddings != nil {
		p.embeddingNorms[slot] = p.write(p.embeddings, slot, m.Embedding)
		p.sums[slot] = checksum(p.encoded)
	}
	for l, t := range p.layers {
		p.norms[l][slot] = p.write(t, slot, m.Probabilities[l*p.Experts:(l+1)*p.Experts])
	}
	p.sumNorms(slot)
	p.clock++
	if p.added[slot] > 0 {
		p.release(p.owner[slot], who)
	}
	p.owners[who].maps++
	p.added[slot], p.changed[slot], p.uses[slot], p.owner[slot] = p.clock, p.clock, 0, who
}

func (p *part) sumNorms(slot int) {
	p.whole[slot] = 0
	for l := range p.norms {
		p.whole[slot] += float64(p.norms[l][slot])
	}
}

// checksum is of an embedding's bytes: equal ones are found by it without a product.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// release takes a map from its owner, who is forgotten with the last one unless it gets
// another.
func (p *part) release(from, next int32) {
	if p.owners[from].maps--; p.owners[from].maps == 0 && from != next {
		p.owners[from].name = ""
	}
}

// write writes one vector and returns its norm's square, as it is held.
func (p *part) write(t *cpu.Table, slot int, v []float32) float32 {
	p.encoded = t.Encode(p.encoded[:0], v)
	t.SetRow(slot, p.encoded)
	held := p.decoded[:len(v)]
	t.Decode(held, p.encoded)
	return cpu.Chain(held, held)
}

// forget takes out a tenant's maps, and moves the others up.
func (p *part) forget(tenant string) (n int) {
	p.clock++
	kept := 0
	for slot := range p.count {
		if who := p.owner[slot]; p.owners[who].name == tenant {
			p.release(who, -1)
			n++
			continue
		}
		if kept != slot {
			p.move(kept, slot)
		}
		kept++
	}
	for slot := kept; slot < p.count; slot++ {
		p.clear(slot)
	}
	p.count, p.near = kept, nil
	return n
}

// move copies a slot to another one.
func (p *part) move(to, from int) {
	for _, t := range p.tables() {
		p.encoded = t.AppendRow(p.encoded[:0], from)
		t.SetRow(to, p.encoded)
	}
	if p.embeddings != nil {
		p.embeddingNorms[to] = p.embeddingNorms[from]
	}
	for l := range p.norms {
		p.norms[l][to] = p.norms[l][from]
	}
	p.added[to], p.changed[to], p.uses[to] = p.added[from], p.clock, p.uses[from]
	p.sums[to], p.owner[to], p.whole[to] = p.sums[from], p.owner[from], p.whole[from]
}

// clear leaves nothing in a slot.
func (p *part) clear(slot int) {
	for _, t := range p.tables() {
		t.SetRow(slot, make([]byte, t.RowBytes()))
	}
	if p.embeddings != nil {
		p.embeddingNorms[slot] = 0
	}
	for l := range p.norms {
		p.norms[l][slot] = 0
	}
	p.added[slot], p.changed[slot], p.uses[slot] = 0, p.clock, 0
	p.sums[slot], p.owner[slot], p.whole[slot] = 0, 0, 0
}

func (p *part) panels() int { return (p.count + cpu.PanelWidth - 1) / cpu.PanelWidth }
