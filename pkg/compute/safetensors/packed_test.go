package safetensors

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// weightsLike are bytes of bf16 normal-like numbers: few exponents, and noise.
func weightsLike(n int) []byte {
	out := make([]byte, 0, 2*n)
	for i := range n {
		v := float32(math.Sin(float64(i)*1.7) * math.Exp(-float64(i%13)/4))
		out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(v)>>16))
	}
	return out
}

func plainFile(t testing.TB, tensors ...Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, tensors, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packedFile(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(&b, plain); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sample has each width, an empty tensor, and one of several chunks.
func sample(t testing.TB) []byte {
	n := 2*chunkElements + 77
	return plainFile(t,
		Tensor{Name: "a", DType: BF16, Shape: []int{n}, Data: weightsLike(n)},
		Tensor{Name: "b", DType: U8, Shape: []int{5}, Data: []byte("abcde")},
		Tensor{Name: "c", DType: F32, Shape: []int{100}, Data: weightsLike(200)},
		Tensor{Name: "d", DType: I64, Shape: []int{300}, Data: make([]byte, 2400)},
		Tensor{Name: "e", DType: F4, Shape: []int{6}, Data: []byte("xyz")},
		Tensor{Name: "f", DType: F16, Shape: []int{0}, Data: nil},
	)
}

func TestPacked(t *testing.T) {
	plain := sample(t)
	packed := packedFile(t, plain)
	if len(packed) > len(plain)*3/4 {
		t.Errorf("%d bytes became %d", len(plain), len(packed))
	}
	got, err := Unpack(packed)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("another file came back, %v", err)
	}
	f, err := Parse(packed)
	if err != nil || !f.Packed() || f.Size() != int64(len(plain)) {
		t.Fatalf("%v", err)
	}
	if b, ok := f.Tensor("b"); !ok || string(b.Data) != "abcde" {
		t.Errorf("b is %q", b.Data)
	}
}

// A packed file is read where the plain one is not; the plain one comes first.
func TestOpenPacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	put := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened := func(packed bool) {
		t.Helper()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Packed() != packed || len(f.Names()) != 6 {
			t.Errorf("packed %v, with %v", f.Packed(), f.Names())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(path); err == nil || strings.Contains(err.Error(), PackedSuffix) {
		t.Errorf("without any: %v", err)
	}
	packed := packedFile(t, sample(t))
	put(path+PackedSuffix, packed)
	opened(true)
	put(path, sample(t))
	opened(false)
	put(path+PackedSuffix, packed[:len(packed)-1])
	opened(false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "model.safetensors.packed") {
		t.Errorf("of a cut file: %v", err)
	}
}

func TestPackedRefusals(t *testing.T) {
	good := packedFile(t, sample(t))
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], to)
		return b
	}
	first := packedPrefix
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "not a packed file"},
		{"magic alone", []byte(packedMagic), "truncated"},
		{"long beyond reason", change(8, 0, 0, 0, 0, 0, 0, 0, 127), "more than 8 times"},
		{"other length", change(8, 1), "the packed chunks hold"},
		{"no chunks", good[:packedPrefix], "more than 8 times"},
		{"cut", good[:len(good)-1], "plane"},
		{"cut in a beginning", good[:first+3], "more than 8 times"},
		{"width", change(first, 3), "width is 3"},
		{"no elements", change(first+1, 0, 0, 0, 0), "0 elements"},
		{"many elements", change(first+1, 1, 0, 2, 0), "131073 elements"},
		{"long plane", change(first+chunkPrefix, 255, 255, 255, 255), "plane 0 has"},
		{"checksum", change(first+5, 1, 2, 3, 4), "checksum"},
		{"flipped bit", change(len(good)-1, good[len(good)-1]^1), "checksum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Unpack(tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// Whatever the bytes are, the same come back.
func TestPackedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Tensor
		for i := range rapid.IntRange(0, 4).Draw(t, "tensors") {
			d := rapid.SampledFrom([]DType{F64, F32, BF16, F16, U8, F4}).Draw(t, "dtype")
			n := 2 * rapid.IntRange(0, 300).Draw(t, "elements")
			size := int(d.Bytes(int64(n)))
			some := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")
			list = append(list, Tensor{Name: string(rune('a' + i)), DType: d, Shape: []int{n}, Data: bytes.Repeat(some, size/len(some)+1)[:size]})
		}
		var plain, packed bytes.Buffer
		if err := Write(&plain, list, nil); err != nil {
			t.Fatal(err)
		}
		if err := Pack(&packed, plain.Bytes()); err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(packed.Bytes())
		if err != nil || !bytes.Equal(got, plain.Bytes()) {
			t.Fatalf("another file came back, %v", err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	small := packedFile(f, plainFile(f, Tensor{Name: "a", DType: BF16, Shape: []int{400}, Data: weightsLike(400)}))
	f.Add(small)
	f.Add(small[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := Unpack(data)
		if err == nil && len(plain) > mostPacked*len(data) {
			t.Errorf("%d bytes of %d", len(plain), len(data))
		}
	})
}

func BenchmarkUnpack(b *testing.B) {
	data := weightsLike(4 << 20)
	packed := packedFile(b, plainFile(b, Tensor{Name: "a", DType: BF16, Shape: []int{4 << 20}, Data: data}))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Unpack(packed); err != nil {
			b.Fatal(err)
		}
	}
}
