package expertmap

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// Maps of one store go into another of another capacity and format, the newest last.
func TestMerge(t *testing.T) {
	from, err := Load(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := settings(small, 2)
	c.Replace, c.Maps, c.Embeddings = FIFO, FP8, FP8
	s := mustNew(t, c)
	if err := s.Merge(from); err != nil || s.Len("a") != 2 || s.Len("b") != 2 {
		t.Fatalf("%v, %d and %d maps", err, s.Len("a"), s.Len("b"))
	}
	back := mustNew(t, settings(small, 5))
	if err := back.Merge(s); err != nil || back.Len("b") != 2 {
		t.Fatalf("%v, %d maps", err, back.Len("b"))
	}
	last := slices.Collect(func(yield func(Map) bool) {
		for tenant, m := range from.All() {
			if tenant == "b" && !yield(m) {
				return
			}
		}
	})[2]
	if got, ok := s.Begin("b").Embedding(last.Embedding); !ok || got.Score != 1 {
		t.Errorf("the newest map is found as %v, %v", got, ok)
	}
	c.Model = "xyz"
	if err := mustNew(t, c).Merge(from); !errors.Is(err, ErrForeign) {
		t.Errorf("maps of another model: %v", err)
	}
}

// An empty store of equal settings goes on as the one that it takes over.
func TestMergeTakesOver(t *testing.T) {
	from, err := Load(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	want := from.Digest()
	s := mustNew(t, settings(small, 5))
	if err := s.Merge(from); err != nil || s.Digest() != want || from.Len("b") != 0 {
		t.Fatalf("%v; digest %s, want %s", err, s.Digest(), want)
	}
	m := seeded(small, 2).one()
	mustAdd(t, from, "b", m)
	if s.Digest() != want {
		t.Error("the other store's maps are still in this one")
	}
	if got, ok := s.Begin("b").Embedding(m.Embedding); !ok || s.Row(got.Index, 1) == nil {
		t.Errorf("found %v, %v", got, ok)
	}
}
