package model

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Published checkpoints have matrices (N, K) in int4 by one of two packings. Both keep
// eight codes of 4 bits in a word, a scale for each output and group of inputs, and a code
// for zero, which are packed along the outputs:
//
//   - GPTQ packs codes along the inputs, and says of each input which group it is of.
//     The first version of it stores one less than the code for zero.
//   - AWQ packs codes along the outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7; groups are
//     of neighbours.
//
// A weight is its scale times the difference of its code and zero's, which is exact in
// float32 for a scale of 19 bits or fewer, as float16 and bfloat16 are.

// perWord is how many codes a word has.
const perWord = 8

// awqPlace is where AWQ keeps the code of each of eight outputs.
var awqPlace = [perWord]int{0, 4, 1, 5, 2, 6, 3, 7}

// Int4 reports whether matrices are packed as GPTQ or AWQ do it.
func (d Dequant) Int4() bool { return d == GPTQ || d == GPTQ2 || d == AWQ }

// int4Shapes returns those of codes, scales, zeros and, of GPTQ, the inputs' groups.
func (t TensorRef) int4Shapes(n, k int) [][]int {
	groups := (k + t.Group - 1) / max(1, t.Group)
	if t.Dequant == AWQ {
		return [][]int{{k, n / perWord}, {groups, n}, {groups, n / perWord}}
	}
	return [][]int{{k / perWord, n}, {groups, n}, {groups, n / perWord}, {k}}
}

// int4Matrix is a matrix that is stored so.
type int4Matrix struct {
	kind   Dequant
	n, k   int
	words  []byte    // of codes
	scales []float32 // (groups, N)
	zeros  []float32 // (groups, N)
	groups []int64   // of inputs
}

// int4 reads the parts of a matrix, which must be there, and checks them.
func (r *resolved) int4() (m int4Matrix, err error) {
	m = int4Matrix{kind: r.at.Dequant, n: r.shape[0], k: r.shape[1], words: r.stored.Data, zeros: zeros(r.at.Dequant, r.zeros.Data)}
	if m.scales, err = r.scales.Floats(); err != nil {
		return m, err
	}
	for _, s := range m.scales {
		if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
			return m, fmt.Errorf("tensor %q has a scale of %v", r.scales.Name, s)
		}
	}
	m.groups, err = r.groups()
	return m, err
}

// groups says of each input which group it is of.
func (r *resolved) groups() ([]int64, error) {
	if r.at.Dequant == AWQ {
		groups := make([]int64, r.shape[1])
		for input := range groups {
			groups[input] = int64(input / r.at.Group)
		}
		return groups, nil
	}
	groups, err := r.order.Ints()
	if err != nil {
		return nil, err
	}
	for input, g := range groups {
		if g < 0 || g >= int64(r.scales.Shape[0]) {
			return nil, fmt.Errorf("tensor %q: input %d is of group %d, of %d", r.order.Name, input, g, r.scales.Shape[0])
		}
	}
	return groups, nil
}

func zeros(kind Dequant, words []byte) []float32 {
	out := make([]float32, len(words)/4*perWord)
	for i := range len(words) / 4 {
		word := binary.LittleEndian.Uint32(words[4*i:])
		for j := range perWord {
			z := code(word, j)
			switch kind {
			case AWQ:
				z = code(word, awqPlace[j])
			case GPTQ:
				z = (z + 1) & 15
			}
			out[i*perWord+j] = float32(z)
		}
	}
	return out
}

func code(word uint32, place int) uint32 { return word >> (4 * place) & 15 }

// int4Tile is how many inputs are decoded at a time: as many as usually share a scale. A tile of an output, and the
// words of its neighbours' tiles, stay in the L1 cache.
const int4Tile = 128

// numbersTo fills out, row-major, with the weights, a tile of the inputs of the outputs that share words after the other.
func (m *int4Matrix) numbersTo(out []float32) {
	var codes [perWord][int4Tile]byte
	for output := 0; output < m.n; output += perWord {
		for from := 0; from < m.k; from += int4Tile {
			to := min(from+int4Tile, m.k)
			m.codesOf(&codes, output, from, to)
			for j := range perWord {
				m.tile(out[(output+j)*m.k+from:][:to-from], codes[j][:to-from], output+j, m.groups[from:to])
			}
		}
	}
}

// tile makes numbers of an output's codes, of neighbours that share a scale by looking them up.
func (m *int4Matrix) tile(out []float32, codes []byte, output int, groups []int64) {
	for from := 0; from < len(groups); {
		g, to := groups[from], from+1
		for to < len(groups) && groups[to] == g {
			to++
		}
		scale, zero := m.scales[int(g)*m.n+output], m.zeros[int(g)*m.n+output]
		shared, into := codes[from:to], out[from:to]
		if from = to; len(shared) < 1<<4 { // groups in another order
			for i, c := range shared {
				into[i] = scale * (float32(c) - zero)
			}
			continue
		}
		var numbers [1 << 4]float32 // of the codes
		for c := range numbers {
			numbers[c] = scale * (float32(c) - zero)
		}
		for i, c := range shared {
			into[i] = numbers[c&15]
		}
	}
}

// codesOf are those of the inputs [from, to), multiples of perWord, of perWord outputs.
func (m *int4Matrix) codesOf(codes *[perWord][int4Tile]byte, output, from, to int) {
	if m.kind == AWQ {
		for input := from; input < to; input++ {
			word := m.word(input, m.n/perWord, output/perWord)
			for j, place := range awqPlace {
				codes[j][input-from] = byte(code(word, place))
			}
		}
		return
	}
	for input := from; input < to; input += perWord {
		for j := range perWord {
			word := m.word(input/perWord, m.n, output+j)
			place := (*[perWord]byte)(codes[j][input-from:])
			for i := range place {
				place[i] = byte(code(word, i))
			}
		}
	}
}

func (m *int4Matrix) word(row, columns, column int) uint32 {
	return binary.LittleEndian.Uint32(m.words[4*(row*columns+column):])
}
