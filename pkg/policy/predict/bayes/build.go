package bayes

import (
	"cmp"
	"slices"
)

// Rows are the rows of a text with what is known of each. Keys and Experts are there where the
// text was computed.
type Rows struct {
	Tokens, Positions []uint32
	Keys              [][]uint32 // of each layer; nil where they are not known
	Experts           [][]uint16 // of each layer (rows, k); nil where they are not known
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Tokens) }

// Slice are the rows from one on, to before another one.
func (r *Rows) Slice(from, to int) *Rows {
	k := 0
	if len(r.Experts) > 0 && r.Len() > 0 {
		k = len(r.Experts[0]) / r.Len()
	}
	out := &Rows{Tokens: r.Tokens[from:to], Positions: r.Positions[from:to]}
	for _, keys := range r.Keys {
		out.Keys = append(out.Keys, keys[from:to])
	}
	for _, experts := range r.Experts {
		out.Experts = append(out.Experts, experts[from*k:to*k])
	}
	return out
}

// check says what does not fit a table; computed rows have keys and experts.
func (h *Header) check(r *Rows, computed bool) error {
	if len(r.Positions) != r.Len() {
		return wrong("%d rows have %d positions", r.Len(), len(r.Positions))
	}
	if computed && (len(r.Keys) != len(h.Layers) || len(r.Experts) != len(h.Layers)) {
		return wrong("rows have keys of %d layers and experts of %d; there are %d", len(r.Keys), len(r.Experts), len(h.Layers))
	}
	for i, token := range r.Tokens {
		if int64(token) >= int64(h.Vocab) || r.Positions[i] >= mostPositions {
			return wrong("row %d has token %d at position %d; tokens are below %d and positions below %d", i, token, r.Positions[i], h.Vocab, mostPositions)
		}
	}
	for l := range r.Keys {
		if len(r.Keys[l]) != r.Len() {
			return wrong("%d rows have %d keys in layer %d", r.Len(), len(r.Keys[l]), l)
		}
		for i, key := range r.Keys[l] {
			if int64(key) >= int64(h.Vocab) {
				return wrong("row %d of layer %d has token %d for its key; tokens are below %d", i, l, key, h.Vocab)
			}
		}
	}
	return h.checkExperts(r)
}

func (h *Header) checkExperts(r *Rows) error {
	for l, experts := range r.Experts {
		if len(experts) != r.Len()*h.TopK {
			return wrong("%d rows have %d choices in layer %d; each has %d", r.Len(), len(experts), l, h.TopK)
		}
		for i, e := range experts {
			if int(e) >= h.Experts {
				return wrong("row %d of layer %d chose expert %d; there are %d", i/h.TopK, l, e, h.Experts)
			}
		}
	}
	return nil
}

// Builder counts what rows chose.
type Builder struct {
	h      Header
	layers [][]counted
}

type counted struct {
	token uint32
	entry
}

// NewBuilder begins a table; Samples and Rows of the header are counted by Add.
func NewBuilder(h Header) *Builder {
	h.Samples, h.Rows = 0, 0
	return &Builder{h, make([][]counted, len(h.Layers))}
}

// Add counts a sequence.
func (b *Builder) Add(r *Rows) error {
	if err := b.h.check(r, true); err != nil {
		return err
	}
	b.h.Samples++
	b.h.Rows += r.Len()
	for l := range b.layers {
		for i, token := range r.Tokens {
			for _, e := range r.Experts[l][i*b.h.TopK : (i+1)*b.h.TopK] {
				b.layers[l] = append(b.layers[l], counted{token, entry{r.Positions[i], r.Keys[l][i], e, 1}})
			}
		}
	}
	return nil
}

// Table is what was counted.
func (b *Builder) Table() (*Table, error) {
	if err := b.h.Check(); err != nil {
		return nil, err
	}
	t := &Table{Header: b.h, layers: make([]layer, len(b.layers))}
	for l, list := range b.layers {
		slices.SortFunc(list, func(a, c counted) int { return cmp.Or(cmp.Compare(a.token, c.token), a.compare(c.entry)) })
		t.layers[l] = merged(list)
	}
	return t, nil
}

// merged sums up sorted counts.
func merged(list []counted) (to layer) {
	for _, c := range list {
		if n := len(to.tokens); n == 0 || to.tokens[n-1] != c.token {
			to.tokens, to.of = append(to.tokens, c.token), append(to.of, nil)
		}
		of := &to.of[len(to.of)-1]
		if n := len(*of); n > 0 && (*of)[n-1].compare(c.entry) == 0 {
			(*of)[n-1].count += c.count
		} else {
			*of = append(*of, c.entry)
		}
	}
	return to
}
