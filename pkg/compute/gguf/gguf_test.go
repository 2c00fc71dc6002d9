package gguf_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
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
	if a, _ := f.Text("general.architecture"); a != "llama" {
		t.Errorf("architecture %q", a)
	}
	if n, ok := f.Whole("test.4"); n != 0 || !ok {
		t.Errorf("a whole number is %d, %v", n, ok)
	}
	if _, ok := f.Text("test.words"); ok || f.Packed() || len(f.Names()) != len(want) {
		t.Errorf("an array is a text: %v; packed: %v; names %v", ok, f.Packed(), f.Names())
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
	one := func(x safetensors.Tensor) []byte { return gguftest.File("a", []safetensors.Tensor{x}) }
	good := one(safetensors.Tensor{Name: "x", DType: safetensors.F32, Shape: []int{4}, Data: make([]byte, 16)})
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
		"key twice":          {with(key+5, '1'), "there twice"},
		"type of value":      {with(key+6, 99), "GGUF does not have"},
		"alignment":          {with(alignment, 3), "multiple of 8"},
		"dimensions":         {with(info+9, 5), "5 dimensions"},
		"no element":         {with(info+13, 0), "dimension of 0"},
		"too large":          {with(info+13, 0xff, 0xff, 0xff, 0xff, 0xff), "is too large"},
		"type of tensor":     {with(info+21, 10), "type Q2_K"},
		"unknown type":       {with(info+21, 200), "type 200"},
		"blocks":             {with(info+21, 12), "multiple of 256"},
		"offset":             {with(info+25, 8), "multiple of 32"},
		"outside":            {with(info+25, 0xe0, 0xff), "outside of the file"},
		"truncated":          {good[:len(good)-1], "outside of the file"},
		"truncated header":   {good[:info+3], "truncated"},
		"tensors' beginning": {good[:len(good)-17], "truncated"},
		"overlap": {bytes.Replace(gguftest.File("a", []safetensors.Tensor{
			{Name: "x", DType: safetensors.F32, Shape: []int{16}, Data: make([]byte, 64)},
			{Name: "y", DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)},
		}), binary.LittleEndian.AppendUint64(nil, 64), binary.LittleEndian.AppendUint64(nil, 32), 1), "overlaps"},
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
