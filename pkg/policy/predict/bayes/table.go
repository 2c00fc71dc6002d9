package bayes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Features are what is known of a row at a layer.
type Features struct {
	Token    uint32 // f1
	Position uint32 // f2
	Key      uint32 // f3: the token of the key that counted most
}

// Header is what a table is of.
type Header struct {
	Model   string `json:"model"`  // the model's hash
	Layers  []int  `json:"layers"` // those with experts, ascending
	Experts int    `json:"experts"`
	TopK    int    `json:"top_k"`
	Vocab   int    `json:"vocabulary"` // tokens are below it
	Samples int    `json:"samples"`    // sequences that were counted
	Rows    int    `json:"rows"`
}

// LeastSamples is how many sequences a table is made of at least (section III-A).
const LeastSamples = 100

// The bounds of tables, so that one that is read can be held.
const (
	mostLayers    = 1 << 12
	mostExperts   = 1 << 16
	mostVocab     = 1 << 24
	mostPositions = 1 << 24
	mostCount     = 1 << 31
)

// ErrTable says that a table cannot be used.
var ErrTable = errors.New("a table of chosen experts that cannot be used")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrTable}, args...)...)
}

// Check says what is wrong with a header.
func (h *Header) Check() error {
	switch {
	case len(h.Layers) == 0 || len(h.Layers) > mostLayers || h.Layers[0] < 0 || !ascend(h.Layers):
		return wrong("its layers are %v; there must be 1 to %d, different and ascending", h.Layers, mostLayers)
	case h.Experts < 1 || h.Experts > mostExperts || h.TopK < 1 || h.TopK > h.Experts:
		return wrong("%d of %d experts are chosen; there must be 1 to %d, and no more chosen than there are", h.TopK, h.Experts, mostExperts)
	case h.Vocab < 1 || h.Vocab > mostVocab:
		return wrong("its vocabulary has %d tokens; it must be 1 to %d", h.Vocab, mostVocab)
	case h.Samples < LeastSamples || h.Rows < h.Samples:
		return wrong("it is of %d sequences with %d rows; record %d sequences or more, with a row each", h.Samples, h.Rows, LeastSamples)
	}
	return nil
}

func ascend(list []int) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// Table is how often rows with some features chose an expert: the paper's Ω. It does not change.
type Table struct {
	Header
	layers []layer // by index into Layers
}

// layer has the entries of each token, both ascending.
type layer struct {
	tokens []uint32
	of     [][]entry
}

type entry struct {
	position, key uint32
	expert        uint16
	count         uint32
}

// compare orders entries of a token: by what they are of, not by their counts.
func (a entry) compare(b entry) int {
	return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.key, b.key), cmp.Compare(a.expert, b.expert))
}

func (t *Table) entries(layer int, token uint32) []entry {
	l := &t.layers[layer]
	if at, ok := slices.BinarySearch(l.tokens, token); ok {
		return l.of[at]
	}
	return nil
}

// Pairs are how many keys a table has.
func (t *Table) Pairs() (n int) {
	for _, l := range t.layers {
		for _, list := range l.of {
			n += len(list)
		}
	}
	return n
}

// Pair is a key of a table with its value.
type Pair struct {
	Layer int // index into Layers
	Features
	Expert int
	Count  uint32
}

// Of are the keys whose tokens are among some, in the table's order: by layer, token, position, key
// and expert.
func (t *Table) Of(tokens []uint32) (pairs []Pair) {
	asked := slices.Clone(tokens)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	for l := range t.layers {
		for _, token := range asked {
			for _, e := range t.entries(l, token) {
				pairs = append(pairs, Pair{l, Features{token, e.position, e.key}, int(e.expert), e.count})
			}
		}
	}
	return pairs
}

func (t *Table) checkPair(p *Pair) error {
	switch {
	case p.Layer < 0 || p.Layer >= len(t.Layers) || p.Expert < 0 || p.Expert >= t.Experts:
		return wrong("a pair is of layer %d and expert %d; there are %d and %d, from 0", p.Layer, p.Expert, len(t.Layers), t.Experts)
	case int64(p.Token) >= int64(t.Vocab) || int64(p.Key) >= int64(t.Vocab) || p.Position >= mostPositions:
		return wrong("a pair is of tokens %d and %d at position %d; tokens are below %d and positions below %d", p.Token, p.Key, p.Position, t.Vocab, mostPositions)
	case p.Count < 1 || p.Count >= mostCount:
		return wrong("a pair counts %d rows; it must be 1 to %d", p.Count, mostCount-1)
	}
	return nil
}

// With is the table with some values changed and some keys added; of pairs with the same key the
// last one counts. What is unchanged is shared.
func (t *Table) With(pairs []Pair) (*Table, error) {
	type place struct {
		layer int
		token uint32
	}
	changed := map[place][]entry{}
	for i := range pairs {
		p := &pairs[i]
		if err := t.checkPair(p); err != nil {
			return nil, err
		}
		at := place{p.Layer, p.Token}
		list, ok := changed[at]
		if !ok {
			list = slices.Clone(t.entries(p.Layer, p.Token))
		}
		changed[at] = put(list, entry{p.Position, p.Key, uint16(p.Expert), p.Count})
	}
	out := &Table{Header: t.Header, layers: slices.Clone(t.layers)}
	touched := make([]bool, len(t.layers))
	for at, list := range changed {
		l := &out.layers[at.layer]
		if !touched[at.layer] {
			touched[at.layer] = true
			l.tokens, l.of = slices.Clone(l.tokens), slices.Clone(l.of)
		}
		i, ok := slices.BinarySearch(l.tokens, at.token)
		if !ok {
			l.tokens, l.of = slices.Insert(l.tokens, i, at.token), slices.Insert(l.of, i, nil)
		}
		l.of[i] = list
	}
	return out, nil
}

// put sets an entry of a sorted list.
func put(list []entry, e entry) []entry {
	i, ok := slices.BinarySearchFunc(list, e, entry.compare)
	if ok {
		list[i] = e
		return list
	}
	return slices.Insert(list, i, e)
}

// Entry is one of the keys that a token has in a layer, by a number that is taken modulo how many
// there are; false where there are none.
func (t *Table) Entry(layer int, token uint32, number uint64) (Pair, bool) {
	list := t.entries(layer, token)
	if len(list) == 0 {
		return Pair{}, false
	}
	e := list[number%uint64(len(list))]
	return Pair{layer, Features{token, e.position, e.key}, int(e.expert), e.count}, true
}

// Value is what a key counts: 0 where the table does not have it.
func (t *Table) Value(p *Pair) uint32 {
	list := t.entries(p.Layer, p.Token)
	if i, ok := slices.BinarySearchFunc(list, entry{position: p.Position, key: p.Key, expert: uint16(p.Expert)}, entry.compare); ok {
		return list[i].count
	}
	return 0
}

// Largest are the largest value and position of all keys.
func (t *Table) Largest() (count, position uint32) {
	for _, l := range t.layers {
		for _, list := range l.of {
			for _, e := range list {
				count, position = max(count, e.count), max(position, e.position)
			}
		}
	}
	return count, position
}
