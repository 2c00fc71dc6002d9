package forward

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// memoryStore has the objects of a model, and counts what is read of them.
type memoryStore struct {
	objects map[string][]byte
	read    map[string]int
	faults  int // how many reads fail
}

func (s *memoryStore) Read(_ context.Context, o digest.Object, into []byte) ([]byte, error) {
	s.read[o.Name]++
	if s.faults > 0 {
		s.faults--
		return nil, errors.New("slow today")
	}
	return append(into[:0], s.objects[o.Name]...), nil
}

func (s *memoryStore) Close() error { return nil }

// store makes objects of a folder.
func store(t *testing.T, dir string) (*model.Model, *memoryStore) {
	t.Helper()
	m := modeltest.Open(t, dir)
	contents, err := m.Contents()
	if err != nil {
		t.Fatal(err)
	}
	s := &memoryStore{objects: map[string][]byte{}, read: map[string]int{}}
	man := &digest.Manifest{Format: digest.ManifestFormat, Model: m.Hash, Tensors: m.Digests()}
	for _, c := range contents {
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || r.Close() != nil || int64(len(data)) != c.Bytes {
			t.Fatalf("%s: %d bytes of %d, %v", c.Name, len(data), c.Bytes, err)
		}
		s.objects[c.Name] = data
		man.Objects = append(man.Objects, digest.Object{Name: c.Name, Key: c.Key, Bytes: c.Bytes, Chunks: 1, Sum: sha256.Sum256(data)})
	}
	stored, err := model.FromStore(t.Context(), filepath.Base(dir), man, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	clear(s.read) // of opening it
	return stored, s
}

// Each role reads what it needs, once, and nothing else.
func TestRolesReadTheirOwn(t *testing.T) {
	for _, name := range []string{"mixtral", "qwen2_moe-mixed", "qwen3_moe", "gpt_oss", "gpt_oss-mxfp4"} {
		t.Run(name, func(t *testing.T) {
			m, s := store(t, goldens.Dir(name))
			p := threads(t)
			want := func(role string, names ...string) {
				t.Helper()
				slices.Sort(names)
				if got := slices.Sorted(maps.Keys(s.read)); !slices.Equal(got, names) {
					t.Errorf("%s reads %v, needs %v", role, got, names)
				}
				for object, times := range s.read {
					if times > 1 {
						t.Errorf("%s reads %s %d times", role, object, times)
					}
				}
				clear(s.read)
			}
			routers, backbone, last := []string{}, []string{"embed", "head"}, ExpertID{}
			for l := range m.Spec.Layer {
				backbone = append(backbone, model.Piece{Kind: model.LayerPiece, Layer: l}.String())
				if m.Spec.Layer[l].MoE {
					routers = append(routers, model.Piece{Kind: model.RouterPiece, Layer: l}.String())
					last = ExpertID{l, m.Spec.Experts - 1}
				}
			}
			if _, err := LoadRouter(m.With(t.Context()), p); err != nil {
				t.Fatal(err)
			}
			want("a gate", routers...)
			if _, err := LoadBackbone(m.With(t.Context()), p, 64); err != nil {
				t.Fatal(err)
			}
			want("attention", backbone...)
			if _, err := ExpertBytes(m, last); err != nil {
				t.Fatal(err)
			}
			want("sizing an expert")
			if _, err := loadExpert(t.Context(), m, last); err != nil {
				t.Fatal(err)
			}
			want("a host", model.Piece{Kind: model.ExpertPiece, Layer: last.Layer, Expert: last.Expert}.String())
		})
	}
}

// What is loaded from objects has the folder's bytes.
func TestExpertFromStore(t *testing.T) {
	fp8, _ := modeltest.FP8(t, goldens.Dir("mixtral"))
	for name, dir := range map[string]string{
		"bf16": goldens.Dir("mixtral"), "fused": goldens.Dir("gpt_oss"), "mxfp4": goldens.Dir("gpt_oss-mxfp4"), "fp8": fp8,
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := store(t, dir)
			id := ExpertID{2, 5}
			a, err := loadExpert(t.Context(), m, id)
			if err != nil {
				t.Fatal(err)
			}
			b, err := loadExpert(t.Context(), modeltest.Open(t, dir), id)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := oneRow(a), oneRow(b); !slices.Equal(got, want) || a.Bytes() != b.Bytes() {
				t.Error("an expert of the store computes something else, or takes other memory")
			}
		})
	}
}

// oneRow computes a row of made-up numbers.
func oneRow(e *Expert) []float32 {
	in, out := make([]float32, e.hidden()), make([]float32, e.hidden())
	for i := range in {
		in[i] = float32(i%7) / 7
	}
	e.runInline(out, in, 1, make([]float32, e.floatsFor(1)))
	return out
}

// A file that the model has is waited for; one that it has not is not there.
func TestFilesAreWaitedFor(t *testing.T) {
	m, s := store(t, goldens.Dir("mixtral"))
	s.faults = 1
	if data, ok := m.File("config.json"); !ok || len(data) == 0 || s.read["file.config.json"] != 2 {
		t.Errorf("%d bytes after reading %v", len(data), s.read)
	}
	if _, ok := m.File("tokenizer.json"); ok {
		t.Error("a file from nowhere")
	}
}

// Objects that are not what the manifest says are refused by name.
func TestStoreRefusals(t *testing.T) {
	m, s := store(t, goldens.Dir("mixtral"))
	s.objects["expert.1.3"] = s.objects["expert.1.2"]
	s.objects["expert.1.4"] = []byte("short")
	for expert, want := range map[int]string{3: "object expert.1.3: tensor", 4: "object expert.1.4"} {
		if _, err := loadExpert(t.Context(), m, ExpertID{1, expert}); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
