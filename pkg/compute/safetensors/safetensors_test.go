package safetensors

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// raw joins a header and a body, with a correct length prefix.
func raw(header string, body int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, body)...)
}

func TestRefusals(t *testing.T) {
	const ok = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "truncated"},
		{"short prefix", make([]byte, 7), "truncated"},
		{"huge header", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "above the limit"},
		{"header outside", binary.LittleEndian.AppendUint64(nil, 99), "truncated"},
		{"not JSON", raw("hello", 0), "not a JSON object"},
		{"array", raw("[]", 0), "not a JSON object"},
		{"cut JSON", raw(`{`+ok, 4), "near byte"},
		{"two values", raw(`{`+ok+`}{}`, 4), "more than one"},
		{"twice", raw(`{`+ok+`,`+ok+`}`, 4), "named twice"},
		{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, 0), "given twice"},
		{"metadata not strings", raw(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		{"unknown dtype", raw(`{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}`, 4), `dtype "Q4"`},
		{"unknown field", raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, 4), "unknown field"},
		{"missing shape", raw(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "needs dtype"},
		{"three offsets", raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4), "needs dtype"},
		{"negative", raw(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), `"a"`},
		{"outside", raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 4), "outside"},
		{"reversed", raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4), "outside"},
		{"wrong length", raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "needs 8"},
		{"overflow", raw(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "overflows"},
		{"overflow hidden by zero", raw(`{"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}`, 0), "overflows"},
		{"half a byte", raw(`{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}}`, 0), "whole bytes"},
		{"overlap", raw(`{`+ok+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6), "overlaps"},
		{"hole", raw(`{`+ok+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), "no tensor"},
		{"tail", raw(`{`+ok+`}`, 5), "at the end"},
		{"truncated data", raw(`{`+ok+`}`, 3), "outside"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse(tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestOpenNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
	for _, content := range []string{"", "abc"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
}

func TestOpenMapsAndClosesTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	var b bytes.Buffer
	want := []Tensor{{Name: "s", DType: F32, Shape: []int{}, Data: []byte{0, 0, 128, 63}}, {Name: "v", DType: U8, Shape: []int{2, 1}, Data: []byte{7, 8}}}
	if err := Write(&b, want, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := f.Tensor("v")
	ints, err := v.Ints()
	if !ok || err != nil || !slices.Equal(ints, []int64{7, 8}) || b.Bytes()[v.Offset] != 7 {
		t.Errorf("v = %+v, %v, %v", v, ints, err)
	}
	s, _ := f.Tensor("s")
	if x, err := s.Floats(); err != nil || !slices.Equal(x, []float32{1}) {
		t.Errorf("s = %v, %v", x, err)
	}
	if f.Metadata()["format"] != "pt" || f.Size() != int64(b.Len()) {
		t.Errorf("metadata %v, size %d", f.Metadata(), f.Size())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestHalf(t *testing.T) {
	for h, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 0x1p-24, 0x0400: 0x1p-14, 0x7c00: float32(math.Inf(1))} {
		if got := cpu.HalfToFloat(h); got != want {
			t.Errorf("%#x: got %v, want %v", h, got, want)
		}
	}
	if x := cpu.HalfToFloat(0x7e00); x == x {
		t.Error("NaN became", x)
	}
}

func TestRoundTrip(t *testing.T) {
	dtypes := []DType{F64, F32, F16, BF16, I64, I32, U8, "BOOL", "F8_E4M3"}
	rapid.Check(t, func(t *rapid.T) {
		var in []Tensor
		for i := range rapid.IntRange(0, 5).Draw(t, "n") {
			x := Tensor{Name: string(rune('a' + i)), DType: rapid.SampledFrom(dtypes).Draw(t, "dtype")}
			x.Shape = rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
			n := x.Len() * x.DType.Size()
			x.Data = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
			in = append(in, x)
		}
		var b bytes.Buffer
		if err := Write(&b, in, nil); err != nil {
			t.Fatal(err)
		}
		f, err := Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range in {
			y, ok := f.Tensor(x.Name)
			if !ok || y.DType != x.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(x.Data, y.Data) {
				t.Fatalf("wrote %+v, read %+v", x, y)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(raw(`{"__metadata__":{"k":"v"}}`, 0))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			x, _ := file.Tensor(name)
			_, _ = x.Floats()
			_, _ = x.Ints()
		}
	})
}
