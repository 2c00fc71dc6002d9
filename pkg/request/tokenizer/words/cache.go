package words

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// cache keeps the ids of words that were met: at each place the last one of
// those whose hash leads there. Readers and writers need no lock.
type cache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cached]
}

type cached struct {
	word string
	ids  []uint32
}

// cachedBytes is the length up to which a word is kept, cacheSlots how
// many are.
const cachedBytes, cacheSlots = 64, 1 << 16 // a power of two

func newCache(slots int) *cache {
	return &cache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cached], slots)}
}

func (c *cache) slot(word string) *atomic.Pointer[cached] {
	return &c.slots[maphash.String(c.seed, word)&uint64(len(c.slots)-1)]
}

// keep takes ids over, but not word: it is a part of a whole text.
func (c *cache) keep(slot *atomic.Pointer[cached], word string, ids []uint32) {
	slot.Store(&cached{strings.Clone(word), ids})
}
