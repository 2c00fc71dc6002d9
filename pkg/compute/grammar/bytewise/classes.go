package bytewise

import "slices"

// partition cuts characters into classes that no expression tells apart.
type partition struct {
	cuts  []rune  // where another class begins
	class []int32 // of the characters from a cut on
	count int
	sets  map[string][]int32 // the classes of an expression's ranges
}

// maxClasses bounds the classes of one automaton.
const maxClasses = 1 << 10

// partitionOf is that of some expressions.
func partitionOf(b *Budget, all []*Expression) (*partition, error) {
	p := &partition{sets: map[string][]int32{}}
	var distinct [][]rune
	var visit func(*Expression)
	visit = func(e *Expression) {
		if key := string(e.runes); e.op == opRunes && p.sets[key] == nil {
			p.sets[key] = []int32{}
			distinct = append(distinct, e.runes)
		}
		for _, s := range e.sub {
			visit(s)
		}
	}
	for _, e := range all {
		visit(e)
	}
	p.cuts = []rune{0, firstHalf, lastHalf + 1}
	for _, ranges := range distinct {
		for i := 0; i+1 < len(ranges); i += 2 {
			p.cuts = append(p.cuts, ranges[i], ranges[i+1]+1)
		}
	}
	slices.Sort(p.cuts)
	p.cuts = slices.Compact(p.cuts)
	if err := b.takeWork(len(p.cuts) * (len(distinct) + 1)); err != nil {
		return nil, err
	}
	return p, p.number(distinct)
}

// number gives classes numbers, by the ranges that they are in.
func (p *partition) number(distinct [][]rune) error {
	in := make([][]byte, len(p.cuts)) // for each cut, which ranges its characters are in
	for i := range in {
		in[i] = make([]byte, len(distinct))
	}
	for n, ranges := range distinct {
		for i := 0; i+1 < len(ranges); i += 2 {
			at, _ := slices.BinarySearch(p.cuts, ranges[i])
			for ; at < len(p.cuts) && p.cuts[at] <= ranges[i+1]; at++ {
				in[at][n] = 1
			}
		}
	}
	known := map[string]int32{}
	for i := range in {
		n := Dead
		if p.cuts[i] < firstHalf || p.cuts[i] > lastHalf { // the others are no characters
			n = p.numberOf(known, in[i], distinct)
		}
		p.class = append(p.class, n)
	}
	if p.count = len(known); p.count > maxClasses {
		return &TooLargeError{What: "classes of characters"}
	}
	return nil
}

// numberOf returns the number of the class that is in some of the ranges.
func (p *partition) numberOf(known map[string]int32, in []byte, distinct [][]rune) int32 {
	n, ok := known[string(in)]
	if ok {
		return n
	}
	n = int32(len(known))
	known[string(in)] = n
	for at, is := range in {
		if is == 1 {
			key := string(distinct[at])
			p.sets[key] = append(p.sets[key], n)
		}
	}
	return n
}

// of returns the classes of an expression's characters.
func (p *partition) of(e *Expression) []int32 { return p.sets[string(e.runes)] }

// ranges tells of each class's characters.
func (p *partition) ranges(tell func(class int32, low, high rune)) {
	const last = 0x10ffff
	for i, low := range p.cuts {
		high := rune(last)
		if i+1 < len(p.cuts) {
			high = p.cuts[i+1] - 1
		}
		if low <= high && low <= last && p.class[i] != Dead {
			tell(p.class[i], low, min(high, last))
		}
	}
}
