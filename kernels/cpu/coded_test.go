package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// codings are those of files, and what bits a weight of 512 inputs takes with them.
var codings = map[string]struct {
	Coding
	bits float64
}{
	"Q8_0":         {Coding{Bits: 8, Group: 32, Kind: Steps}, 8.5},
	"Q4_0":         {Coding{Bits: 4, Group: 32, Kind: Steps, Zero: -8}, 4.5},
	"Q4_1":         {Coding{Bits: 4, Group: 32, Kind: StepsMins}, 5},
	"Q5_1":         {Coding{Bits: 8, Group: 32, Kind: StepsMins}, 9},
	"Q4_K":         {Coding{Bits: 4, Group: 32, Kind: SubStepsMins}, 4.625},
	"Q5_K":         {Coding{Bits: 8, Group: 32, Kind: SubStepsMins}, 8.625},
	"Q6_K":         {Coding{Bits: 6, Group: 16, Kind: SubSteps}, 8.5625},
	"GPTQ 128":     {Coding{Bits: 4, Group: 128, Kind: StepsZeros}, 4 + 24./128},
	"GPTQ 1 group": {Coding{Bits: 4, Group: math.MaxInt32, Kind: StepsZeros}, 4 + 24./512},
}

// codedMatrix is a random matrix, and its weights.
func codedMatrix(seed uint64, n, k int, c Coding) (*Matrix, []float32) {
	r := rand.New(rand.NewPCG(seed, 3))
	m, w := Packer{}.Coded(n, k, c), make([]float32, n*k)
	codes := make([]int8, n*k)
	for i := range n {
		for at := 0; at < k; at += c.span(k) {
			m.SetStep(i, at, randomHalf(r), randomHalf(r))
		}
		for at := 0; at < k && c.subSize() > 0; at += c.Group {
			m.SetSub(i, at, int8(r.IntN(256)-128), int8(r.IntN(256)-128))
		}
		setCodes(r, m, i, codes[i*k:(i+1)*k])
	}
	for i := range w {
		row, in := i/k, i%k
		scale, offset := m.scaleAt(row/PanelWidth, in, row%PanelWidth)
		w[i] = float32(float64(codes[i])*float64(scale) + float64(offset))
	}
	return m, w
}

// setCodes makes random codes of an output.
func setCodes(r *rand.Rand, m *Matrix, i int, codes []int8) {
	word := uint32(0)
	for at := range codes {
		codes[at] = int8(r.IntN(256) - 128)
		if m.coded.Bits == 6 {
			codes[at] >>= 2
		}
		if m.coded.Bits > 4 {
			continue
		}
		codes[at] &= 15
		word = word>>4 | uint32(codes[at])<<28
		if at%8 == 7 {
			m.SetNibbles(i, at-7, word)
		}
	}
	if m.coded.Bits > 4 {
		m.SetBytes(i, 0, codes)
	}
}

// randomHalf is a finite float16, sometimes below the normal range.
func randomHalf(r *rand.Rand) uint16 {
	h := uint16(r.IntN(1<<15))&0x3fff | uint16(r.IntN(2))<<15
	if r.IntN(20) == 0 {
		h &= 0x83ff
	}
	return h
}

func TestCodedMatMul(t *testing.T) {
	for name, c := range codings {
		for _, s := range []struct{ rows, n, k int }{
			{1, 1, 512}, {1, 160, 1024}, {2, 96, 256}, {3, 100, 512}, {4, 256, 768}, {5, 64, 256}, {13, 130, 1280}, {100, 40, 512}, {8, 160, 1024},
		} {
			m, w := codedMatrix(2, s.n, s.k, c.Coding)
			x := floats(1, s.rows*s.k)
			exact := chain(x, w, s.rows, s.n, s.k)
			t.Run(fmt.Sprintf("%s/%dx%dx%d", name, s.rows, s.n, s.k), func(t *testing.T) {
				eachVariant(t, func(t *testing.T) {
					got := make([]float32, s.rows*s.n)
					MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
					if !sameBits(got, exact) {
						t.Error("differs from the chain over the decoded weights")
					}
				})
			})
		}
	}
}

// The inputs of int4 need not fill groups, and GGUF's groups of 32 fill no 256.
func TestCodedPartialGroups(t *testing.T) {
	for _, c := range []struct {
		Coding
		k int
	}{
		{Coding{Bits: 4, Group: 128, Kind: StepsZeros}, 200}, {Coding{Bits: 4, Group: 512, Kind: StepsZeros}, 520},
		{Coding{Bits: 4, Group: 1024, Kind: StepsZeros}, 1536}, {Coding{Bits: 8, Group: 32, Kind: Steps}, 96}, {Coding{Bits: 4, Group: 64, Kind: StepsZeros}, 8},
	} {
		m, w := codedMatrix(4, 70, c.k, c.Coding)
		for _, rows := range []int{1, 3, 9} {
			x := floats(6, rows*c.k)
			exact := chain(x, w, rows, 70, c.k)
			eachVariant(t, func(t *testing.T) {
				got := make([]float32, rows*70)
				MatMul(got, 70, x, c.k, rows, m, 0, m.Panels())
				if !sameBits(got, exact) {
					t.Errorf("%+v, %d rows: differs from the chain over the decoded weights", c, rows)
				}
			})
		}
	}
}

func TestCodingBytes(t *testing.T) {
	for name, c := range codings {
		m, _ := codedMatrix(1, 96, 512, c.Coding)
		if got := float64(m.Bytes()) * 8 / (96 * 512); got != c.bits || m.Bytes() != c.PackedBytes(96, 512) {
			t.Errorf("%s: %v bits a weight, want %v; %d bytes, foreseen %d", name, got, c.bits, m.Bytes(), c.PackedBytes(96, 512))
		}
	}
	if m, _ := codedMatrix(1, 96, 512, rounding("Q6_K")); m.Bytes()*8 != 96*512*6.5625 {
		t.Errorf("Q6_K for rounded rows takes %d bytes", m.Bytes())
	}
	for _, c := range []Coding{{Bits: 5, Group: 32}, {Bits: 4, Group: 8}, {Bits: 4, Group: 96}, {Bits: 8, Group: 16, Kind: SubSteps}} {
		if c.Check(288) == nil {
			t.Errorf("%+v is said to be decoded", c)
		}
	}
}

// A stack gives the bits of its parts, whatever panels are asked for.
func TestStack(t *testing.T) {
	const k = 512
	a, _ := codedMatrix(1, 64, k, codings["Q4_K"].Coding)
	b, _ := codedMatrix(2, 32, k, codings["Q6_K"].Coding)
	c := PackF32(floats(3, 50*k), 50, k)
	m := Stack(a, b, c)
	if m.N != 146 || m.Bytes() != a.Bytes()+b.Bytes()+c.Bytes() {
		t.Errorf("%d outputs and %d bytes", m.N, m.Bytes())
	}
	for _, rows := range []int{1, 7} {
		x, want, at := floats(4, rows*k), make([]float32, rows*m.N), 0
		for _, part := range m.stack {
			MatMul(want[at:], m.N, x, k, rows, part, 0, part.Panels())
			at += part.N
		}
		for split := range m.Panels() + 1 {
			got := make([]float32, rows*m.N)
			MatMul(got, m.N, x, k, rows, m, 0, split)
			MatMul(got, m.N, x, k, rows, m, split, m.Panels())
			if !sameBits(got, want) {
				t.Errorf("%d rows, split at panel %d: differs from the parts", rows, split)
			}
		}
	}
}

func TestCodedAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("pools lose what they have at random when they are raced")
	}
	plain, _ := codedMatrix(1, 64, 512, codings["Q4_K"].Coding)
	rounds, _ := codedMatrix(1, 36, 512, rounding("Q4_K"))
	for _, m := range []*Matrix{plain, rounds, Stack(plain, rounds)} {
		eachVariant(t, func(t *testing.T) {
			for _, rows := range []int{1, 9} {
				x, y := floats(1, rows*512), make([]float32, rows*m.N)
				f := func() { MatMul(y, m.N, x, 512, rows, m, 0, m.Panels()) }
				if got := testing.AllocsPerRun(20, f); got >= 1 { // less: the collector empties pools
					t.Errorf("%d rows of %d outputs: %v allocations", rows, m.N, got)
				}
			}
		})
	}
}
