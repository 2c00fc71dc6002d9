package gguf_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/gguf"
	"github.com/switchyard/switchyard/pkg/compute/gguf/gguftest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// tensors are one of each type, of two rows.
func tensors() (all []safetensors.Tensor) {
	for kind := range gguftest.Numbers {
		elements, _ := kind.Block()
		data := make([]byte, kind.Bytes(int64(6*elements)))
		for i := range data {
			data[i] = byte(i * len(kind))
		}
		all = append(all, safetensors.Tensor{Name: "t." + string(kind), DType: kind, Shape: []int{2, 3 * elements}, Data: data})
	}
	return append(all, safetensors.Tensor{Name: "vector", DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)})
}

func TestFile(t *testing.T) {
	want := tensors()
	path := filepath.Join(t.TempDir(), "m.gguf")
	data := gguftest.File("llama", want)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if split, ok := f.Split(); f.Architecture() != "llama" || ok || f.Packed() || len(f.Names()) != len(want) {
		t.Errorf("architecture %q, split %v %v, packed: %v; names %v", f.Architecture(), split, ok, f.Packed(), f.Names())
	}
	for _, x := range want {
		got, ok := f.Tensor(x.Name)
		if !ok || got.DType != x.DType || !slices.Equal(got.Shape, x.Shape) || !bytes.Equal(got.Data, x.Data) {
			t.Errorf("%s is %v %v", x.Name, got.DType, got.Shape)
		}
		if !bytes.Equal(data[got.Offset:][:len(got.Data)], x.Data) {
			t.Errorf("%s is not at byte %d", x.Name, got.Offset)
		}
	}
	if err := f.Close(); err != nil || f.Close() != nil {
		t.Errorf("closing: error %v", err)
	}
}

// refused are files that Parse refuses, with what it says.
func refused() map[string]struct {
	data []byte
	says string
} {
	one := []safetensors.Tensor{{Name: "x", DType: safetensors.F32, Shape: []int{4}, Data: make([]byte, 16)}}
	good := gguftest.File("a", one)
	with := func(at int, value ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], value)
		return b
	}
	info := bytes.LastIndex(good, []byte("\x01\x00\x00\x00\x00\x00\x00\x00x")) // the tensor's length of name
	key := bytes.Index(good, []byte("test.0"))
	alignment := bytes.Index(good, []byte("general.alignment")) + len("general.alignment") + 4
	return map[string]struct {
		data []byte
		says string
	}{
		"empty":              {nil, `does not begin with "GGUF"`},
		"safetensors":        {[]byte("\x10\x00\x00\x00\x00\x00\x00\x00{}"), `does not begin with "GGUF"`},
		"version 1":          {with(4, 1), "version is 0x1"},
		"big endian":         {with(4, 0, 0, 0, 3), "version is 0x3000000"},
		"many tensors":       {with(8, 0xff, 0xff, 0xff, 0xff, 0xff), "do not fit a file"},
		"many values":        {with(16, 0xff, 0xff, 0xff, 0xff, 0xff), "do not fit a file"},
		"long key":           {with(key-8, 0xff, 0xff), "not 1 to 1024"},
		"key twice":          {gguftest.File("a", one, gguftest.Text("general.architecture", "b")), "there twice"},
		"long architecture":  {gguftest.File(strings.Repeat("a", 1025), one), "1025 bytes, not 1 to 1024"},
		"type of a used key": {with(alignment-4, 5), `key "general.alignment" at byte 24 is of type 5, not 4`},
		"long text":          {gguftest.File("a", one, gguftest.Value("more", 8, 0, 0, 0, 0, 0, 0, 0, 0x80)), "truncated"},
		"type of value":      {with(key+6, 99), "GGUF does not have"},
		"alignment":          {with(alignment, 3), "multiple of 8"},
		"dimensions":         {with(info+9, 5), "5 dimensions"},
		"no element":         {with(info+13, 0), "dimension of 0"},
		"too large":          {with(info+13, 0xff, 0xff, 0xff, 0xff, 0xff), "is too large"},
		"type of tensor":     {with(info+21, 10), "type Q2_K"},
		"unknown type":       {with(info+21, 200), "type 200"},
		"64 bits":            {with(info+21, 28), "type F64"},
		"blocks":             {with(info+21, 12), "multiple of 256"},
		"offset":             {with(info+25, 8), "not the first multiple of 32 from 0 on"},
		"far offset":         {with(info+25, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "its offset is 18446744073709551584, not the first"},
		"truncated":          {good[:len(good)-1], "outside of the file"},
		"truncated header":   {good[:info+3], "truncated"},
		"tensors' beginning": {good[:len(good)-17], "truncated"},
		"overlap": {bytes.Replace(gguftest.File("a", []safetensors.Tensor{
			{Name: "x", DType: safetensors.F32, Shape: []int{16}, Data: make([]byte, 64)},
			{Name: "y", DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)},
		}), binary.LittleEndian.AppendUint64(nil, 64), binary.LittleEndian.AppendUint64(nil, 32), 1), "its offset is 32, not the first multiple of 32 from 64 on"},
		"another alignment": {bytes.Replace(gguftest.File("a", []safetensors.Tensor{
			{Name: "x", DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)}, // padded to 32
			{Name: "y", DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)},
		}), gguftest.Value("general.alignment", 4, 32), gguftest.Value("general.alignment", 4, 8), 1), "its offset is 32, not the first multiple of 8 from 4 on"},
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range refused() {
		t.Run(name, func(t *testing.T) {
			if _, err := gguf.Parse(tt.data); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := gguf.Open(filepath.Join(t.TempDir(), "none.gguf")); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("no file: error %v", err)
	}
}

// Values that are not used cost no memory, however long they are.
func TestPassedOver(t *testing.T) {
	const long = 8 << 20
	data := gguftest.File("a", nil, gguftest.Text("more", strings.Repeat("x", long)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := gguf.Parse(data)
	runtime.ReadMemStats(&after)
	if err != nil || f.Architecture() != "a" || after.TotalAlloc-before.TotalAlloc >= long {
		t.Errorf("%d bytes are taken, error %v", after.TotalAlloc-before.TotalAlloc, err)
	}
}

// An array of strings is walked over one by one, so their number is bounded.
func TestManyStrings(t *testing.T) {
	const many = 1<<22 + 1
	array := append(binary.LittleEndian.AppendUint64([]byte{8, 0, 0, 0}, many), make([]byte, 8*many)...)
	if _, err := gguf.Parse(gguftest.File("a", nil, gguftest.Value("more", 9, array...))); err == nil || !strings.Contains(err.Error(), "more than 4194304 strings") {
		t.Errorf("error %v", err)
	}
}

// A part of a model says which one it is, of how many, and what all of them have.
func TestSplit(t *testing.T) {
	f, err := gguf.Parse(gguftest.File("", nil, gguftest.Split(1, 3, 40)...))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := f.Split(); !ok || s != (gguf.Split{Part: 1, Parts: 3, Tensors: 40}) || f.Architecture() != "" {
		t.Errorf("%+v, %v, of architecture %q", s, ok, f.Architecture())
	}
}

// Whatever the bytes, tensors lie in the file and have as many bytes as their shapes say.
func FuzzParse(f *testing.F) {
	f.Add(gguftest.File("llama", tensors()))
	for _, r := range refused() {
		f.Add(r.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			x, ok := file.Tensor(name)
			if !ok || x.DType.Bytes(int64(x.Len())) != int64(len(x.Data)) {
				t.Fatalf("%q: %d bytes for %s%v", name, len(x.Data), x.DType, x.Shape)
			}
			if _, err := x.Floats(); err != nil && !strings.Contains(err.Error(), "no finite number") {
				t.Fatal(err)
			}
		}
	})
}
