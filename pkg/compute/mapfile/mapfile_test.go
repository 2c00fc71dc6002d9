package mapfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

var shape = expertmap.Shape{Layers: 3, Experts: 2, TopK: 1, Embedding: 2}

// store has a map of each tenant; each tenant's values are its own.
func store(t *testing.T, tenants ...string) *expertmap.Store {
	t.Helper()
	s, err := expertmap.New(expertmap.Settings{Shape: shape, Model: "abc", Capacity: 9, Distance: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, tenant := range tenants {
		p := float32(i+1) / 64
		if err := s.Add(tenant, []float32{p, 1}, []float32{p, 1 - p, 1 - p, p, p, 1 - p}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestWriteRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	s := store(t, "a", "b")
	for range 2 { // the second replaces the first
		if err := Write(path, s); err != nil {
			t.Fatal(err)
		}
	}
	back, err := Read(path)
	if err != nil || back.Digest() != s.Digest() {
		t.Fatalf("it comes back otherwise: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "maps")
	if _, err := Read(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := Write(path, store(t, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 300); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); !errors.Is(err, expertmap.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("cut off: %v", err)
	}
	if err := Write(filepath.Join(dir, "none", "maps"), store(t, "a")); err == nil {
		t.Error("it was written to a folder that is not there")
	}
}

// After a tenant is forgotten, no file of the folder has a byte of its maps.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "maps")
	if err := Write(path, store(t, "a", "b")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+wholefile.Partial, data[:len(data)-40], 0o600); err != nil { // a write was interrupted
		t.Fatal(err)
	}
	mine := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.0/64))
	if !bytes.Contains(data, mine) {
		t.Fatal("the test looks for the wrong bytes")
	}
	if n, err := Forget(path, "a"); n != 1 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if data, err = os.ReadFile(path); err != nil || bytes.Contains(data, mine) {
		t.Errorf("its bytes are still there; %v", err)
	}
	s, err := Read(path)
	if err != nil || s.Len("a") != 0 || s.Len("b") != 1 {
		t.Errorf("%v", err)
	}
	if n, err := Forget(path, "a"); n != 0 || err != nil {
		t.Errorf("forgot %d again, %v", n, err)
	}
}

func TestExportImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	s := store(t, "a", "b", "a")
	if n, err := Export(path, s, "a"); n != 2 || err != nil {
		t.Fatalf("exported %d, %v", n, err)
	}
	x, err := Import(path)
	if err != nil || x.Shape != shape || x.Tenant != "a" || x.Model != "abc" || len(x.Maps) != 2 {
		t.Fatalf("%+v, %v", x, err)
	}
	other := store(t)
	if err := other.AddBatch("a", x.Maps); err != nil {
		t.Fatal(err)
	}
	s.Forget("b")
	if other.Len("a") != 2 || x.Maps[1].Embedding[0] != 3.0/64 {
		t.Errorf("%d maps, %+v", other.Len("a"), x.Maps)
	}
	if _, err := Export(path, s, "c"); err == nil {
		t.Error("maps of nobody were exported")
	}
}

// What a store has rounded can be imported.
func TestExportRounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	s, err := expertmap.New(expertmap.Settings{Shape: shape, Model: "abc", Capacity: 9, Distance: 1, Maps: expertmap.FP8, Embeddings: expertmap.FP8})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add("a", []float32{1, 2}, []float32{0.53, 0.47, 0.53, 0.47, 0.53, 0.47}); err != nil {
		t.Fatal(err)
	}
	if off := s.Row(0, 1); off[0]+off[1] > 0.99 && off[0]+off[1] < 1.01 {
		t.Fatalf("the test's sum is %v", off)
	}
	if _, err := Export(path, s, "a"); err != nil {
		t.Fatal(err)
	}
	x, err := Import(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := store(t).AddBatch("a", x.Maps); err != nil {
		t.Error(err)
	}
}

func TestImportRefuses(t *testing.T) {
	three, two := make([]byte, 4*6), make([]byte, 4*2)
	maps := safetensors.Tensor{Name: "maps", DType: safetensors.F32, Shape: []int{1, 3, 2}, Data: three}
	embeddings := safetensors.Tensor{Name: "embeddings", DType: safetensors.F32, Shape: []int{2, 1}, Data: two}
	good := map[string]string{"format": Format, "top_k": "1"}
	for _, tt := range []struct {
		name, want string
		meta       map[string]string
		tensors    []safetensors.Tensor
	}{
		{"ok", "", good, []safetensors.Tensor{maps}},
		{"format", "no file of switchyard maps export", nil, []safetensors.Tensor{maps}},
		{"top k", "top_k", map[string]string{"format": Format}, []safetensors.Tensor{maps}},
		{"no maps", `tensor "maps"`, good, []safetensors.Tensor{embeddings}},
		{"numbers", "1 maps and 2 embeddings", good, []safetensors.Tensor{maps, embeddings}},
		{"none", `tensor "maps"`, good, []safetensors.Tensor{{Name: "maps", DType: safetensors.F32, Shape: []int{0, 3, 2}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			var b bytes.Buffer
			if err := safetensors.Write(&b, tt.tensors, tt.meta); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Import(path); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzImport(f *testing.F) {
	var b bytes.Buffer
	if err := safetensors.Write(&b, []safetensors.Tensor{
		{Name: "maps", DType: safetensors.F32, Shape: []int{1, 3, 2}, Data: make([]byte, 4*6)},
		{Name: "embeddings", DType: safetensors.F32, Shape: []int{1, 2}, Data: make([]byte, 4*2)},
	}, map[string]string{"format": Format, "top_k": "1"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.Parse(data)
		if err != nil {
			return
		}
		x, err := parse(file)
		if err != nil {
			return
		}
		s, err := expertmap.New(expertmap.Settings{Shape: x.Shape, Model: x.Model, Capacity: 3, Distance: 1})
		if err != nil {
			return
		}
		_ = s.AddBatch(x.Tenant, x.Maps) // it says what cannot be
		if s.Counts().Added+s.Counts().RefusedValues != uint64(len(x.Maps)) {
			t.Errorf("%d maps became %+v", len(x.Maps), s.Counts())
		}
	})
}
