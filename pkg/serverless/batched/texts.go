package batched

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// Texts are sequences with what their rows chose, in the order in which they were written.
type Texts struct {
	bayes.Header
	Sequences []*bayes.Rows
}

// The generator's constants, all assumed: it is not fitted. A row's logit for an expert is a sum of
// standard normal values, each of what it is named by, times these.
const (
	vocabulary   = 2048
	topics       = 8
	ofTopic      = 0.3 // share of a sequence's tokens that are drawn among its topic's
	length       = 128 // rows of a sequence
	sink         = 0.3 // share of rows whose key is the sequence's first token
	byPopularity = 0.5
	byToken      = 1.5
	byKey        = 0.7
	byPosition   = 0.3
	byTopic      = 0.4
	byChance     = 0.8
	positionSpan = 16 // positions that choose alike

	// MostSequences is how many Write makes at most.
	MostSequences = 1 << 17
)

// Written is how many written sequences have so many rows.
func Written(rows int) int { return (rows + length - 1) / length }

// Write makes sequences of the shape, so many of them.
func (s Shape) Write(n int, seed uint64) (*Texts, error) {
	if n < 1 || n > MostSequences {
		return nil, fmt.Errorf("%d sequences are asked for; it must be 1 to %d", n, MostSequences)
	}
	t := &Texts{Header: bayes.Header{Model: fmt.Sprintf("generated %s %d", s.Name, seed), Experts: s.Experts, TopK: s.TopK, Vocab: vocabulary}}
	for l := range s.Layers {
		t.Layers = append(t.Layers, l)
	}
	w := &writer{Shape: s, seed: seed, chances: zipf(), normals: splitmix.Normals(), logits: make([]float64, s.Experts)}
	for i := range n {
		t.Sequences = append(t.Sequences, w.sequence(uint64(i)))
	}
	return t, nil
}

// zipf are the shares of tokens, summed up.
func zipf() []float64 {
	sums, sum := make([]float64, vocabulary), 0.0
	for i := range sums {
		sum += 1 / float64(i+2)
		sums[i] = sum
	}
	for i := range sums {
		sums[i] /= sum
	}
	return sums
}

type writer struct {
	Shape
	seed    uint64
	chances []float64
	normals *[4096]float64
	logits  []float64
}

// normal is a standard normal value of some numbers.
func (w *writer) normal(kind, layer, of, expert uint64) float64 {
	bits := splitmix.Mix(w.seed ^ splitmix.Mix(kind<<60^layer<<48^of<<16^expert))
	return w.normals[bits%uint64(len(w.normals))]
}

func (w *writer) sequence(number uint64) *bayes.Rows {
	state := splitmix.Mix(w.seed ^ splitmix.Mix(number+1))
	topic := splitmix.Next(&state) % topics
	r := &bayes.Rows{Keys: make([][]uint32, w.Layers), Experts: make([][]uint16, w.Layers)}
	for i := range length {
		r.Tokens, r.Positions = append(r.Tokens, w.token(topic, &state)), append(r.Positions, uint32(i))
		for l := range w.Layers {
			key := r.Tokens[0]
			if draw := splitmix.Unit(splitmix.Next(&state)); draw >= sink {
				key = r.Tokens[int((draw-sink)/(1-sink)*float64(i+1))]
			}
			r.Keys[l] = append(r.Keys[l], key)
			r.Experts[l] = append(r.Experts[l], w.chosen(uint64(l), r.Tokens[i], key, i, topic, &state)...)
		}
	}
	return r
}

func (w *writer) token(topic uint64, state *uint64) uint32 {
	rank := sort.SearchFloat64s(w.chances, splitmix.Unit(splitmix.Next(state)))
	if splitmix.Unit(splitmix.Next(state)) < ofTopic {
		return uint32((uint64(rank)*topics + topic) % vocabulary)
	}
	return uint32(min(rank, vocabulary-1))
}

// chosen are the experts of a row, the first first.
func (w *writer) chosen(l uint64, token, key uint32, position int, topic uint64, state *uint64) []uint16 {
	for e := range w.logits {
		n := uint64(e)
		w.logits[e] = byPopularity*w.normal(0, l, 0, n) + byToken*w.normal(1, l, uint64(token), n) + byKey*w.normal(2, l, uint64(key), n) +
			byPosition*w.normal(3, l, uint64(position/positionSpan), n) + byTopic*w.normal(4, l, topic, n) + byChance*w.normals[splitmix.Next(state)%uint64(len(w.normals))]
	}
	out := make([]uint16, 0, w.TopK)
	for range w.TopK {
		best := 0
		for e, v := range w.logits {
			if v > w.logits[best] {
				best = e
			}
		}
		w.logits[best] = math.Inf(-1)
		out = append(out, uint16(best))
	}
	return out
}

// Split is a text's use: a table is made of the first share of sequences, a search learns on the next
// rows, and plans are tested on batches of the rest.
type Split struct {
	Table       *bayes.Table
	Frequency   bayes.Frequency // of tokens in the sequences that the table is not made of: Learn and Test
	Learn, Test []*bayes.Rows   // batches
}

// ErrShort says that there are too few rows.
var ErrShort = errors.New("too few rows")

// Split takes a text apart: the table is of a share of sequences, and batches have so many tokens. Of the
// rest the batches to learn on have the first sequences, half of them at most, and test batches the others.
// Where the rest has too few for the test batches, sequences come again in an order that is drawn.
func (t *Texts) Split(share float64, batch, learn, test int, seed uint64) (*Split, error) {
	if !(share > 0 && share < 1) || batch < 1 || learn < 1 || test < 1 {
		return nil, fmt.Errorf("a table of %v of the sequences, and %d and %d batches of %d tokens are asked for; the share must be between 0 and 1, the others 1 or more", share, learn, test, batch)
	}
	first, rest := t.Parts(share, seed)
	table, err := t.Table(first)
	if err != nil {
		return nil, err
	}
	if len(rest) < 2 {
		return nil, fmt.Errorf("%w: %d sequences are left to learn and to test on; record more, or make the table of a smaller share", ErrShort, len(rest))
	}
	s := &Split{Table: table}
	own := t.enough(rest, learn*batch)
	s.Learn, s.Test = t.batches(rest[:own], batch, learn, seed), t.batches(rest[own:], batch, test, seed+1)
	var text []uint32
	for _, i := range rest {
		text = append(text, t.Sequences[i].Tokens...)
	}
	s.Frequency, err = bayes.NewFrequency(t.Vocab, text)
	return s, err
}

// enough is how many of the first sequences have so many rows, half of them at most and one at least.
func (t *Texts) enough(of []int, rows int) (n int) {
	for ; n < len(of)/2 && rows > 0; n++ {
		rows -= t.Sequences[of[n]].Len()
	}
	return max(1, n)
}

// Parts are the numbers of sequences that a table is made of, in an order that is drawn, and of the
// others.
func (t *Texts) Parts(share float64, seed uint64) (first, rest []int) {
	order := shuffled(len(t.Sequences), seed)
	n := int(math.Ceil(share * float64(len(order))))
	return order[:n], order[n:]
}

// First is the text as if each row had chosen its first expert alone.
func (t *Texts) First() *Texts {
	out := &Texts{Header: t.Header}
	out.TopK = 1
	for _, s := range t.Sequences {
		one := *s
		one.Experts = make([][]uint16, len(s.Experts))
		for l, of := range s.Experts {
			for at := 0; at < len(of); at += t.TopK {
				one.Experts[l] = append(one.Experts[l], of[at])
			}
		}
		out.Sequences = append(out.Sequences, &one)
	}
	return out
}

// Table counts what some sequences chose.
func (t *Texts) Table(of []int) (*bayes.Table, error) {
	b := bayes.NewBuilder(t.Header)
	for _, i := range of {
		if err := b.Add(t.Sequences[i]); err != nil {
			return nil, err
		}
	}
	return b.Table()
}

// Batch is the rows of some sequences, up to so many.
func (t *Texts) Batch(of []int, most int) *bayes.Rows {
	b := &bayes.Rows{Keys: make([][]uint32, len(t.Layers)), Experts: make([][]uint16, len(t.Layers))}
	for _, i := range of {
		s := t.Sequences[i]
		appendRows(b, s.Slice(0, min(s.Len(), most-b.Len())))
	}
	return b
}

func shuffled(n int, seed uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	state := splitmix.Mix(seed ^ 0x5b)
	for i := n - 1; i > 0; i-- {
		j := int(splitmix.Next(&state) % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// batches are of sequences in turn; when all have been there, they come again in another order.
func (t *Texts) batches(from []int, size, n int, seed uint64) (all []*bayes.Rows) {
	at, again := 0, uint64(0)
	order := from
	for range n {
		b := &bayes.Rows{Keys: make([][]uint32, len(t.Layers)), Experts: make([][]uint16, len(t.Layers))}
		for b.Len() < size {
			if at == len(order) {
				again++
				at, order = 0, nil
				for _, i := range shuffled(len(from), seed+again<<32) {
					order = append(order, from[i])
				}
			}
			s := t.Sequences[order[at]]
			at++
			appendRows(b, s.Slice(0, min(s.Len(), size-b.Len())))
		}
		all = append(all, b)
	}
	return all
}

func appendRows(b, more *bayes.Rows) {
	b.Tokens, b.Positions = append(b.Tokens, more.Tokens...), append(b.Positions, more.Positions...)
	for l := range more.Keys {
		b.Keys[l] = append(b.Keys[l], more.Keys[l]...)
	}
	for l := range more.Experts {
		b.Experts[l] = append(b.Experts[l], more.Experts[l]...)
	}
}
