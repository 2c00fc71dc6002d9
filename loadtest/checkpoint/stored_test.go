package checkpoint

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// inMemory is a store of objects by their names.
type inMemory map[string][]byte

func (s inMemory) Read(_ context.Context, o digest.Object, into []byte) ([]byte, error) {
	return append(into[:0], s[o.Name]...), nil
}

func (s inMemory) Close() error { return nil }

// From the object store a copy has the bits that its folder has, and an expert's object its own codes alone.
func TestInStore(t *testing.T) {
	for _, name := range []string{"gpt_oss", "gpt2_moe"} {
		t.Run(name, func(t *testing.T) {
			m := modeltest.Open(t, copyIn(t, modeltest.Golden(t, name), model.Q4, 1<<30))
			contents, err := m.Contents()
			if err != nil {
				t.Fatal(err)
			}
			objects, man := inMemory{}, &digest.Manifest{Format: digest.ManifestFormat, Model: m.Hash, Tensors: m.Digests()}
			for _, c := range contents {
				r, err := c.Open()
				if err != nil {
					t.Fatal(err)
				}
				data, err := io.ReadAll(r)
				if err != nil || r.Close() != nil {
					t.Fatal(err)
				}
				objects[c.Name] = data
				man.Objects = append(man.Objects, digest.Object{Name: c.Name, Key: c.Key, Bytes: c.Bytes, Chunks: 1, Sum: sha256.Sum256(data)})
				if size, _ := forward.ExpertBytes(m, forward.ExpertID{}); strings.HasPrefix(c.Name, "expert.") && c.Bytes > 2*size {
					t.Errorf("%s has %d bytes of an expert's %d", c.Name, c.Bytes, size)
				}
			}
			stored, err := model.FromStore(t.Context(), m.Name, man, objects, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if stored.Hash != m.Hash || !slices.Equal(logits(t, stored, model.AsStored), logits(t, m, model.AsStored)) {
				t.Error("it has another identity, or other logits")
			}
		})
	}
}
