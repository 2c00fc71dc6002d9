package model

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/digest"
)

// inMemory is a store of objects by their names.
type inMemory map[string][]byte

func (s inMemory) Read(_ context.Context, o digest.Object, into []byte) ([]byte, error) {
	return append(into[:0], s[o.Name]...), nil
}

func (s inMemory) Close() error { return nil }

// checkStored puts a model of a folder into a store, and compares all numbers with those
// that are read from there.
func checkStored(t *testing.T, m *Model) {
	t.Helper()
	contents, err := m.Contents()
	if err != nil {
		t.Fatal(err)
	}
	objects := inMemory{}
	man := &digest.Manifest{Format: digest.ManifestFormat, Model: m.Hash, Tensors: m.Digests()}
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
	}
	stored, err := FromStore(t.Context(), m.Name, man, objects, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for ref := range m.Spec.Refs() {
		want, _ := m.Floats(ref)
		if got, err := stored.Floats(ref); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v from the store differs, error %v", ref, err)
		}
	}
}
