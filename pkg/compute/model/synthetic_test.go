package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

func TestSynthetic(t *testing.T) {
	if _, err := Synthetic("nothing", 1); err == nil || !strings.Contains(err.Error(), "mixtral-1b, mixtral-8x7b, ") {
		t.Error(err)
	}
	m, err := Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	checkTensors(t, m)
	again, _ := Synthetic("tiny", 1)
	other, _ := Synthetic("tiny", 2)
	ref := Ref{ExpertUp, 1, 3}
	a, _ := m.Floats(ref)
	b, _ := again.Floats(ref)
	c, _ := other.Floats(ref)
	if !slices.Equal(a, b) || slices.Equal(a, c) || m.Hash != again.Hash || m.Hash == other.Hash {
		t.Error("weights do not follow the seed")
	}
	var sum, squares float64
	for _, x := range a {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	n := float64(len(a))
	if mean, dev := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.01 || math.Abs(dev*8-1) > 0.05 {
		t.Errorf("mean %v, deviation %v, want 0 and 1/8", mean, dev)
	}
	if norm, err := m.Floats(Ref{Role: FinalNorm}); err != nil || norm[0] != 1 {
		t.Errorf("norm %v, %v", norm[0], err)
	}
}

// A tensor's numbers follow from seed and name alone: whoever reads it, as what, when, and
// how often. While somebody holds it nobody else makes it, and then it is gone.
func TestSyntheticReads(t *testing.T) {
	m, err := Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	refs := slices.Collect(m.Spec.Refs())
	rapid.Check(t, func(t *rapid.T) {
		checkReads(t, "tiny", rapid.Uint64Range(0, 3).Draw(t, "seed"), rapid.SliceOfN(rapid.SampledFrom(refs), 1, 4).Draw(t, "refs"))
	})
	checkReads(t, "gpt-oss-20b:1", 1, []Ref{{ExpertDown, 0, 3}, {ExpertDownBias, 0, 3}, {Router, 0, 0}}) // in MXFP4
}

func checkReads(t rapid.TB, name string, seed uint64, some []Ref) {
	t.Helper()
	var models [2]*Model
	for i := range models {
		var err error
		if models[i], err = Synthetic(name, seed); err != nil {
			t.Fatal(err)
		}
	}
	first := make([]Tensor, len(some))
	for i, ref := range some {
		first[i] = tensorOf(t, models[0], ref)
	}
	for i := len(some) - 1; i >= 0; i-- { // in another order
		again, other := tensorOf(t, models[0].With(context.Background()), some[i]), tensorOf(t, models[1], some[i])
		if !bytes.Equal(other.Data, first[i].Data) {
			t.Fatalf("%v of another model has other numbers", some[i])
		}
		if len(again.Data) > 0 && &again.Data[0] != &first[i].Data[0] {
			t.Fatalf("%v is made twice", some[i])
		}
		want := Tensor{DType: other.DType, Shape: other.Shape, Data: slices.Clone(other.Data)}
		if _, quantised := models[0].Packed(some[i]); quantised == nil {
			continue
		}
		floats, err := models[0].Floats(some[i])
		wanted, wrong := want.Floats()
		if err = errors.Join(err, wrong); err != nil || !slices.Equal(floats, wanted) {
			t.Fatalf("%v as float32: %v", some[i], err)
		}
	}
}

func tensorOf(t rapid.TB, m *Model, ref Ref) Tensor {
	t.Helper()
	x, err := m.Tensor(ref)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// What nobody holds is not kept, and many may read at once.
func TestSyntheticKeepsNothing(t *testing.T) {
	m, err := Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	src, ok := m.source.(*synthetic)
	if !ok {
		t.Fatalf("its source is %T", m.source)
	}
	var all sync.WaitGroup
	held := make([]Tensor, 4)
	for i := range held {
		all.Go(func() {
			for ref := range m.Spec.Refs() {
				x, err := m.Tensor(ref)
				if err != nil {
					t.Error(err)
				}
				if ref == (Ref{ExpertUp, 1, 2}) {
					held[i] = x
				}
			}
		})
	}
	all.Wait()
	for i := range held {
		if &held[i].Data[0] != &held[0].Data[0] {
			t.Error("those who read at once hold different copies")
		}
	}
	runtime.GC()
	runtime.GC()
	left := 0
	for name := range src.parts {
		if src.held[name].Value() != nil {
			left++
		}
	}
	if left != 1 {
		t.Errorf("%d tensors are in memory, and one is held", left)
	}
	runtime.KeepAlive(held)
}

// Every number is finite, and of the size that deviations say.
func TestRandomFill(t *testing.T) {
	for _, n := range []int{0, 2, 6, 8, 30, 32, 34, 62, 1 << 16} {
		data, longer := make([]byte, n), make([]byte, n+64)
		of := Random{Stream: 7, Deviation: 0.5}
		of.Fill(data)
		of.Fill(longer)
		if whole := n / 8 * 8; !bytes.Equal(data[:whole], longer[:whole]) {
			t.Errorf("%d bytes are not the first ones of more", n)
		}
		x, err := Tensor{DType: safetensors.BF16, Shape: []int{n / 2}, Data: data}.Floats()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range x {
			if !(v > -2.5 && v < 2.5) {
				t.Fatalf("%d bytes: %v", n, v)
			}
		}
	}
}

// Whoever makes a matrix by what Random says of it has its numbers, and of all others it says
// nothing.
func TestRandom(t *testing.T) {
	for _, name := range []string{"tiny", "gpt-oss-20b:1", "deepseek-v2-lite:1"} {
		m, err := Synthetic(name, 5)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[bool]int{}
		for ref := range m.Spec.Refs() {
			if ref.Expert > 1 {
				continue
			}
			shape := m.Spec.Shape(ref)
			want := len(shape) == 2 && (m.Spec.Quant != MXFP4 || !ref.Role.IsExpert())
			r, ok := m.Random(ref)
			if ok != want || ok && (r.Rows != shape[0] || r.Columns != shape[1]) {
				t.Fatalf("%s, %v: %+v, %v", name, ref, r, ok)
			}
			if seen[ok]++; ok {
				checkRandom(t, r, tensorOf(t, m, ref))
			}
		}
		if seen[true] == 0 || seen[false] == 0 {
			t.Errorf("%s: %v", name, seen)
		}
	}
	m, err := Open(goldens.Dir("mixtral"))
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := m.Random(Ref{Role: ExpertUp}); ok {
		t.Errorf("a checkpoint's is %+v", r)
	}
	for _, n := range []int{1, 2, 3, 5, 35} { // that are no multiple of four
		r := Random{Stream: 9, Deviation: 1, Rows: 1, Columns: n}
		x := Tensor{Data: make([]byte, 2*n)}
		r.Fill(x.Data)
		checkRandom(t, r, x)
	}
}

// checkRandom makes elements one by one.
func checkRandom(t *testing.T, r Random, x Tensor) {
	t.Helper()
	numbers, n := r.Numbers(), r.Rows*r.Columns
	number := func(i int) uint64 { return splitmix.Mix(r.Stream + uint64(i+1)*splitmix.Gamma) }
	for i := range n {
		choice := number(i/4) >> (i % 4 * 12)
		if whole := n / 4 * 4; i >= whole {
			choice = number(whole/4 + i - whole)
		}
		if got, want := binary.LittleEndian.Uint16(x.Data[2*i:]), numbers[choice%4096]; got != want {
			t.Fatalf("element %d of %+v is %x, not %x", i, r, got, want)
		}
	}
}

func TestSynthetic1B(t *testing.T) {
	m, err := Synthetic("mixtral-1b", 1)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := m.Stat(Ref{Role: ExpertDown}); err != nil || !slices.Equal(s.Shape, []int{2048, 4096}) || s.Data != nil {
		t.Errorf("%v with %d bytes, %v", s.Shape, len(s.Data), err)
	}
	if p := m.Spec.Parameters(); m.Bytes != 2*p.Total || p.Total < 1.7e9 {
		t.Errorf("%d bytes, %+v", m.Bytes, p)
	}
}

// A layer of each published shape has as many weights as a layer of the model.
func TestShapes(t *testing.T) {
	for name, want := range map[string]float64{ // millions: those of the whole without embedding and head, by layers
		"mixtral-8x7b": (46703 - 2*131) / 32, "phi-3.5-moe": (41873 - 2*131) / 32, "qwen3-30b-a3b": (30532 - 2*311) / 48, "deepseek-v2-lite": 585, "llama-4-scout": (107770 - 2*1034) / 48,
		"gpt-oss-20b": (20915 - 2*579) / 24,
	} {
		m, err := Synthetic(name+":1", 1)
		if err != nil {
			t.Fatal(err)
		}
		around := 2 * layersVocabulary * m.Spec.Hidden
		if got := float64(m.Spec.Parameters().Total-int64(around)) / 1e6; math.Abs(got/want-1) > 0.01 || !m.Spec.Layer[0].MoE {
			t.Errorf("%s: a layer has %.0f million weights, want %.0f", name, got, want)
		}
		whole, err := Synthetic(name, 1)
		if err != nil || whole.Spec.Layers < 24 || whole.Spec.Vocab < 32000 {
			t.Errorf("%s: %d layers, vocabulary %d, %v", name, whole.Spec.Layers, whole.Spec.Vocab, err)
		}
	}
	for _, name := range []string{"mixtral-8x7b:", "mixtral-8x7b:0", "mixtral-8x7b:33", "mixtral-8x7b:x", "mixtral-8x7b:1:1"} {
		if _, err := Synthetic(name, 1); err == nil || !strings.Contains(err.Error(), "has 32 layers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Quantised weights are made as codes and scales, and are about as large as others.
func TestSyntheticMXFP4(t *testing.T) {
	m, err := Synthetic("gpt-oss-20b:1", 1)
	if err != nil {
		t.Fatal(err)
	}
	ref := Ref{ExpertUp, 0, 5}
	x, err := m.Floats(ref)
	if err != nil || len(x) != 2880*2880 {
		t.Fatalf("%d numbers, %v", len(x), err)
	}
	squares := 0.0
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	if dev := math.Sqrt(squares/float64(len(x))) * math.Sqrt(2880); dev < 0.5 || dev > 2 {
		t.Errorf("deviation %v of what it should be", dev)
	}
	if whole := m.Spec.Parameters().Total; m.Bytes > whole {
		t.Errorf("%d bytes for %d weights of mostly four bits", m.Bytes, whole)
	}
}

func TestUnalignedViewsAreCopied(t *testing.T) {
	words := make([]uint64, 2)
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 16)
	x := Tensor{DType: safetensors.F32, Shape: []int{2}, Data: buffer[1:9]}
	if y := aligned(x); &y.Data[0] == &x.Data[0] || len(y.Data) != 8 {
		t.Error("an unaligned view was passed on")
	}
	x.Data = buffer[:8]
	if y := aligned(x); &y.Data[0] != &x.Data[0] {
		t.Error("an aligned view was copied")
	}
}

// Making a matrix, in memory that is new each time.
func BenchmarkSynthetic(b *testing.B) {
	const size = 2 * 2048 * 4096
	b.SetBytes(size)
	for b.Loop() {
		Random{Stream: 1, Deviation: 0.02}.Fill(make([]byte, size))
	}
}
