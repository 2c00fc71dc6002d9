package pushdown

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// maxAlike is how many places are compared to find those that are alike, each as often as it takes.
const maxAlike = 1 << 18

// merge makes one place of those behind which the same may come, and one move of moves that are the same then: a
// text that can be read in many ways of which no one can tell is read in one.
func (g *Grammar) merge() {
	seed := maphash.MakeSeed()
	of, classes := make([]uint64, len(g.flat)), 1
	for work := len(g.flat); work <= maxAlike; work += len(g.flat) {
		next, seen := make([]uint64, len(of)), map[uint64]bool{}
		for p := range g.flat {
			next[p] = g.kind(seed, Place(p), of)
			seen[next[p]] = true
		}
		of = next
		if len(seen) == classes {
			g.rename(of)
			return
		}
		classes = len(seen)
	}
}

// kind says what may come behind a place, by the kinds of places.
func (g *Grammar) kind(seed maphash.Seed, p Place, of []uint64) uint64 {
	f, moves := &g.flat[p], []uint64(nil)
	hash := func(all ...uint64) uint64 {
		var key []byte
		for _, n := range all {
			key = binary.LittleEndian.AppendUint64(key, n)
		}
		return maphash.Bytes(seed, key)
	}
	guard := func(when Guard) uint64 { return hash(uint64(when.Least), uint64(when.Most), uint64(b2i(when.Adds))) }
	for _, m := range f.terms {
		moves = append(moves, hash(0, uint64(m.term), of[m.to], guard(m.when)))
	}
	for _, m := range f.calls {
		moves = append(moves, hash(1, of[m.rule], of[m.to], guard(m.when)))
	}
	for _, when := range f.ends {
		moves = append(moves, hash(2, guard(when)))
	}
	slices.Sort(moves)
	moves = slices.Compact(moves)
	if g.counts[p] != nil {
		moves = append(moves, uint64(p)) // what it counts is its rule's own
	}
	return hash(moves...)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rename has the first place of each kind stand for all of them.
func (g *Grammar) rename(of []uint64) {
	first := map[uint64]Place{}
	for p, kind := range of {
		if _, ok := first[kind]; !ok {
			first[kind] = Place(p)
		}
	}
	name := func(p Place) Place { return first[of[p]] }
	g.begin = name(g.begin)
	for p := range g.flat {
		f := &g.flat[p]
		if name(Place(p)) != Place(p) {
			*f = flatPlace{ends: f.ends} // nothing leads here any more
			continue
		}
		for i := range f.terms {
			f.terms[i].to = name(f.terms[i].to)
		}
		for i := range f.calls {
			f.calls[i].rule, f.calls[i].to = Rule(name(Place(f.calls[i].rule))), name(f.calls[i].to)
		}
		f.terms, f.calls, f.ends = distinct(f.terms), distinct(f.calls), distinct(f.ends)
	}
}

// distinct leaves out what was there before.
func distinct[T comparable](all []T) []T {
	seen, out := make(map[T]bool, len(all)), all[:0]
	for _, v := range all {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
