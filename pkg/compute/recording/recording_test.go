package recording

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// sample is a recording of random rows.
type sample struct {
	Header
	rows    []Row
	experts [][]int32   // by layer
	inputs  [][]float32 // whole numbers, which bf16 holds
}

func samples(t *rapid.T) sample {
	s := sample{Header: Header{Model: "abc", Domains: []string{"go", "german"}, Layers: []int{0, 3}, Rows: rapid.IntRange(1, 12).Draw(t, "rows"), Note: "x"}}
	s.Experts = rapid.IntRange(1, 400).Draw(t, "experts")
	s.TopK = rapid.IntRange(1, min(3, s.Experts)).Draw(t, "k")
	s.Hidden = rapid.IntRange(0, 40).Draw(t, "hidden")
	s.Keys = rapid.Bool().Draw(t, "keys")
	sequence := 0
	for i := range s.Rows {
		if i > 0 && rapid.Bool().Draw(t, "next") {
			sequence++
		}
		s.rows = append(s.rows, Row{rapid.IntRange(0, 1).Draw(t, "domain"), rapid.Bool().Draw(t, "answer"), sequence, i, uint32(7 * i)})
	}
	for range s.Layers {
		var experts []int32
		for range s.Rows {
			experts = append(experts, rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(s.Experts-1)), s.TopK, s.TopK, rapid.ID).Draw(t, "ids")...)
		}
		inputs := make([]float32, s.Rows*s.Hidden)
		for i := range inputs {
			inputs[i] = float32(rapid.IntRange(-9, 9).Draw(t, "x"))
		}
		s.experts, s.inputs = append(s.experts, experts), append(s.inputs, inputs)
	}
	return s
}

// write stores the sample in two parts, the later one first.
func (s sample) write(path string) error {
	w, err := Create(path, s.Header)
	if err != nil {
		return err
	}
	half := s.Rows / 2
	for _, part := range [][2]int{{half, s.Rows}, {0, half}} {
		from, to := part[0], part[1]
		err := w.Describe(from, s.rows[from:to])
		for l := range s.Layers {
			if err == nil {
				err = w.Layer(l, from, s.experts[l][from*s.TopK:to*s.TopK], s.inputs[l][from*s.Hidden:to*s.Hidden])
			}
			if err == nil && s.Keys {
				err = w.Key(l, from, keysFrom(l, from, to))
			}
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// keysFrom are keys of a layer's rows.
func keysFrom(layer, from, to int) (keys []int32) {
	for i := from; i < to; i++ {
		keys = append(keys, int32(100*layer+i))
	}
	return keys
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		s := samples(t)
		if err := s.write(path); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s.compare(t, r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func (s sample) compare(t *rapid.T, r *Recording) {
	for i, want := range s.rows {
		if got := r.Row(i); got != want {
			t.Fatalf("row %d is %+v, want %+v", i, got, want)
		}
	}
	ids, x := make([]int, s.TopK), make([]float32, s.Rows*s.Hidden)
	for l := range s.Layers {
		for i := range s.rows {
			if at, ok := r.Key(l, i); ok != s.Keys || ok && int32(at) != keysFrom(l, i, i+1)[0] {
				t.Fatalf("layer %d, row %d: key %d, %v", l, i, at, ok)
			}
			r.Chosen(l, i, ids)
			for slot, e := range ids {
				if int32(e) != s.experts[l][i*s.TopK+slot] {
					t.Fatalf("layer %d, row %d: experts %v", l, i, ids)
				}
			}
		}
		if r.Inputs(l, 0, x) != (s.Hidden > 0) || !slices.Equal(x, s.inputs[l]) {
			t.Fatalf("layer %d: inputs differ", l)
		}
	}
	first := r.Sequences()
	if len(first) != s.rows[s.Rows-1].Sequence+2 || first[len(first)-1] != s.Rows {
		t.Fatalf("sequences begin at %v", first)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "r"), Header{Domains: []string{"a"}, Layers: []int{0}, Experts: 2, TopK: 1, Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Describe(1, []Row{{}}); err == nil {
		t.Error("a row behind the last was taken")
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// parts are a small recording's metadata and tensors, to be spoiled.
func parts() (map[string]string, []safetensors.Tensor) {
	h := Header{Domains: []string{"a"}, Layers: []int{0}, Experts: 3, TopK: 2, Rows: 2}
	meta, err := h.metadata()
	if err != nil {
		panic(err)
	}
	var list []safetensors.Tensor
	for _, c := range h.columns() {
		list = append(list, safetensors.Tensor{Name: c.name, DType: c.dtype, Shape: c.shape, Data: make([]byte, c.width*h.Rows)})
	}
	copy(list[rowFields].Data, []byte{0, 0, 1, 0, 2, 0, 1, 0})
	return meta, list
}

func encode(t testing.TB, meta map[string]string, tensors []safetensors.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRefusals(t *testing.T) {
	type tensors = []safetensors.Tensor
	tests := []struct {
		name, want string
		spoil      func(meta map[string]string, list tensors) tensors
	}{
		{"ok", "", func(_ map[string]string, l tensors) tensors { return l }},
		{"format", "no file of", func(m map[string]string, l tensors) tensors { delete(m, "format"); return l }},
		{"domains", "domains", func(m map[string]string, l tensors) tensors { m["domains"] = "[]"; return l }},
		{"layers", "layers", func(m map[string]string, l tensors) tensors { m["layers"] = "[1,0]"; return l }},
		{"rows", "rows", func(m map[string]string, l tensors) tensors { m["rows"] = "x"; return l }},
		{"more rows", "domain", func(m map[string]string, l tensors) tensors { m["rows"] = "3"; return l }},
		{"top k", "chooses", func(m map[string]string, l tensors) tensors { m["top_k"] = "4"; return l }},
		{"missing tensor", "tensors", func(_ map[string]string, l tensors) tensors { return l[1:] }},
		{"other tensor", "must be there", func(_ map[string]string, l tensors) tensors { l[0].Name = "x"; return l }},
		{"domain", "domain", func(_ map[string]string, l tensors) tensors { l[0].Data[0] = 1; return l }},
		{"phase", "phase", func(_ map[string]string, l tensors) tensors { l[1].Data[0] = 2; return l }},
		{"sequence", "sequence", func(_ map[string]string, l tensors) tensors { l[2].Data[0] = 1; return l }},
		{"position", "position", func(_ map[string]string, l tensors) tensors { l[3].Data[3] = 0x80; return l }},
		{"same expert", "different", func(_ map[string]string, l tensors) tensors { l[rowFields].Data[0] = 1; return l }},
		{"unknown expert", "below 3", func(_ map[string]string, l tensors) tensors { l[rowFields].Data[0] = 3; return l }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			meta, list := parts()
			list = tt.spoil(meta, list)
			_, err := parse(encode(t, meta, list))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	meta, list := parts()
	f.Add(encode(f, meta, list))
	bad := maps.Clone(meta)
	bad["rows"] = "9223372036854775807"
	f.Add(encode(f, bad, list))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		r.Sequences()
		x := make([]float32, r.Hidden)
		for l := range r.Layers {
			r.Inputs(l, r.Rows-1, x)
		}
	})
}

// parse reads a recording from memory, which must not change.
func parse(data []byte) (*Recording, error) {
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	return of(f)
}
