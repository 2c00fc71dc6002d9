package united

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

func open(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Open(goldens.Dir("qwen2_moe"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// header is of way 5: three groups a layer, the last of two experts; group 1 of layer 2 has none.
func header(m *model.Model) Header {
	h := Header{Model: m.Hash, Way: 5, Experts: m.Spec.Experts, Loss: "routed", Data: "d", Note: "n"}
	for l, layer := range m.Spec.Layer {
		for g := range h.Groups() {
			if layer.MoE {
				row := Group{Layer: l, Group: g, Rows: 7, Error: 0.5}
				if l == 2 && g == 1 {
					row.Rows = 0
				}
				row.Experts = []Cost{{Expert: 5 * g, Rows: 3, Distance: float64(l), Norm: 2}}
				h.Table = append(h.Table, row)
			}
		}
	}
	return h
}

// regroup gives groups every third expert, or what is left.
func regroup(h *Header) {
	for i := range h.Table {
		g := &h.Table[i]
		g.Of = nil
		for e := g.Group; e < 12; e += 3 {
			g.Of = append(g.Of, int32(e))
		}
		h.Way, g.Experts = 4, []Cost{{Expert: g.Group + 3, Rows: 1, Distance: float64(1 + g.Group)}}
	}
}

// A file says which experts a group has, where numbers do not.
func TestGrouped(t *testing.T) {
	m := open(t)
	for name, tt := range map[string]struct {
		of     func(*Header)
		group  int // of expert 5
		format string
	}{
		"by numbers": {func(*Header) {}, 1, Format},
		"by a table": {regroup, 2, FormatGrouped},
	} {
		h := header(m)
		tt.of(&h)
		b, err := parse(written(t, m, h, 0.5, 0.5), m)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Grouping(1).Group(5, h.Way); got != tt.group || b.file.Metadata()["format"] != tt.format {
			t.Errorf("%s: expert 5 is in group %d of a file of format %s", name, got, b.file.Metadata()["format"])
		}
	}
}

// written is a file whose weights are all v, but the first of the last.
func written(t testing.TB, m *model.Model, h Header, v, last float32) []byte {
	t.Helper()
	var out bytes.Buffer
	err := Write(&out, &m.Spec, h, func(layer, _ int) (Weights, error) {
		w := make([]float32, m.Spec.Hidden*m.Spec.Layer[layer].Expert.Width)
		for i := range w {
			w[i] = v
		}
		a, _ := safetensors.Encode(w, safetensors.BF16)
		w[0] = last
		b, _ := safetensors.Encode(w, safetensors.BF16)
		return Weights{a, a, b}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReadBack(t *testing.T) {
	m := open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Name(5)), written(t, m, header(m), 0.5, 0.25), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir, 5, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if got := b.Without(2); !slices.Equal(got, []bool{false, true, false}) || b.Without(1) != nil {
		t.Errorf("layer 2 is without %v, layer 1 without %v", got, b.Without(1))
	}
	if got := b.Distances(1); got[0] != 1 || got[5] != 1 || got[1] != 0 || len(got) != 12 {
		t.Errorf("distances %v", got)
	}
	if _, err := b.Load(2, 1); !errors.Is(err, ErrBundle) {
		t.Errorf("a group without: %v", err)
	}
	e := NewExperts(nil, nil, 12)
	if err := e.Use(b); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 2, m); !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), "has none of way 2; make them with switchyard distill --way 2") {
		t.Errorf("way 2: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, Name(5)), filepath.Join(dir, Name(2))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 2, m); err == nil || !strings.Contains(err.Error(), "they are of way 5") {
		t.Errorf("another way's file: %v", err)
	}
}

func TestRefused(t *testing.T) {
	m := open(t)
	good := written(t, m, header(m), 0.5, 0.5)
	change := func(f func(*Header)) []byte {
		h := header(m)
		f(&h)
		return written(t, m, h, 0.5, 0.5)
	}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"truncated":       {good[:len(good)-7], ""},
		"empty":           {nil, ""},
		"NaN":             {written(t, m, header(m), 0.5, float32(math.NaN())), "has the number NaN"},
		"infinite":        {written(t, m, header(m), 0.5, float32(math.Inf(-1))), "has the number -Inf"},
		"another model":   {change(func(h *Header) { h.Model = "0123" }), "of the model with hash 0123"},
		"way 1":           {change(func(h *Header) { h.Way, h.Table = 1, nil }), "they are of way 1"},
		"a gap":           {change(func(h *Header) { h.Table = h.Table[1:] }), "group 0 of layer 0 is missing"},
		"a group twice":   {change(func(h *Header) { h.Table[1].Rows = 0; h.Table[1].Group, h.Table[1].Experts = 0, nil }), "twice"},
		"absurd error":    {change(func(h *Header) { h.Table[0].Error = -1 }), "an error of -1"},
		"foreign expert":  {change(func(h *Header) { h.Table[0].Experts[0].Expert = 11 }), "expert 11 of group 0"},
		"few of a group":  {change(func(h *Header) { h.Table[0].Of = []int32{0, 1} }), "group 0 of layer 0 has 2 experts; it must have 5"},
		"one grouped":     {change(func(h *Header) { h.Table[0].Of = []int32{0, 1, 2, 3, 4} }), "group 1 of layer 0 has 0 experts"},
		"one twice":       {change(func(h *Header) { regroup(h); h.Table[0].Of[2] = 0 }), "twice or outside"},
		"one of another":  {change(func(h *Header) { regroup(h); h.Table[0].Experts[0].Expert = 1 }), "expert 1 of group 0"},
		"group too large": {change(func(h *Header) { h.Table[0].Rows, h.Table[0].Group = 0, 9 }), "group 9"},
	} {
		if _, err := parse(tt.data, m); !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if _, err := parse(good, m); err != nil {
		t.Error(err)
	}
}

// A set numbers the united experts of all ways behind the routed ones, and loads each alone.
func TestSet(t *testing.T) {
	m := open(t)
	dir := t.TempDir()
	for way, v := range map[int]float32{2: 0.25, 5: 0.5} {
		h := header(m)
		if way == 2 {
			h.Way, h.Table = 2, nil
			for l := range m.Spec.Layer {
				for g := range h.Groups() {
					h.Table = append(h.Table, Group{Layer: l, Group: g, Rows: 1})
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, Name(way)), written(t, m, h, v, v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenAll(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if s.Units() != 6+3 || len(s.Bundles()) != 2 || !s.Has(2, s.Bundles()[0].ID()) || s.Has(5, s.Bundles()[0].ID()) {
		t.Errorf("%d units of %d bundles", s.Units(), len(s.Bundles()))
	}
	for _, tc := range []struct{ layer, way, group, number int }{{1, 2, 0, 12}, {1, 2, 5, 17}, {1, 5, 0, 18}, {2, 5, 1, -1}, {1, 3, 0, -1}, {1, 5, 3, -1}} {
		number, ok := s.Number(tc.layer, tc.way, tc.group)
		if ok != (tc.number >= 0) || ok && number != tc.number {
			t.Errorf("%+v: %d, %v", tc, number, ok)
		}
		if !ok {
			continue
		}
		id := forward.ExpertID{Layer: tc.layer, Expert: number}
		size, err := s.Size(id)
		e, failed := s.Load(t.Context(), id)
		if err != nil || failed != nil || e.Bytes() != size {
			t.Errorf("%v has %d bytes, %v, %v", id, size, err, failed)
		}
	}
	for _, none := range []int{11, 12 + 6 + 1, 12 + 9} {
		if _, err := s.Load(t.Context(), forward.ExpertID{Layer: 2, Expert: none}); !errors.Is(err, ErrBundle) {
			t.Errorf("number %d: %v", none, err)
		}
	}
	if got := s.Bundles()[1].Lacks(); s.Bundles()[0].Lacks() != nil || len(got) != 3*len(m.Spec.Layer) || !got[2*3+1] || got[0] {
		t.Errorf("lacks %v", got)
	}
	for name, want := range map[string]string{"way-x.safetensors": "is no name of a bundle", "way-3.safetensors": "they are of way 5"} {
		bad := t.TempDir()
		if err := os.WriteFile(filepath.Join(bad, name), written(t, m, header(m), 1, 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAll(bad, m); !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenAll(t.TempDir(), m); !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), "make them with switchyard distill") {
		t.Errorf("an empty folder: %v", err)
	}
	var none *Set
	if _, ok := none.Number(0, 2, 0); ok || none.Units() != 0 || none.Has(2, 1) || none.Close() != nil {
		t.Error("no set has something")
	}
}

func FuzzParse(f *testing.F) {
	m := open(f)
	good := written(f, m, header(m), 0.5, 0.5)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parse(data, m)
		if err != nil {
			return
		}
		for _, g := range b.Table {
			if _, err := b.Load(g.Layer, g.Group); err != nil && g.Rows > 0 {
				t.Fatalf("group %d of layer %d: %v", g.Group, g.Layer, err)
			}
		}
	})
}

// parse reads a file from memory, which must not change.
func parse(data []byte, m *model.Model) (*Bundle, error) {
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	b, err := of(f, m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return b, nil
}
