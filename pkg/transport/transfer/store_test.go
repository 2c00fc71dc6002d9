package transfer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

var streams = schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "m"), Moved: true}

// open makes a store, of a spec that is changed.
func open(t *testing.T, conn *bus.Conn, change func(*schemas.StreamSpec)) *ObjectStore {
	t.Helper()
	spec := streams.Objects()
	change(&spec)
	if err := conn.Ensure(t.Context(), 1, spec); err != nil {
		t.Fatal(err)
	}
	return NewObjectStore(conn, streams)
}

func as(*schemas.StreamSpec) {}

// count is how many messages the store has.
func (s *ObjectStore) count(t *testing.T) int {
	t.Helper()
	state, err := s.conn.State(t.Context(), s.stream)
	if err != nil {
		t.Fatal(err)
	}
	return int(state.Messages)
}

// Objects of any size come back, and go with their group alone.
func TestSizes(t *testing.T) {
	s := open(t, testserver.Connect(t), as)
	sizes := []int{0, 1, mostChunk - 1, mostChunk, mostChunk + 1, 3*mostChunk + 7}
	for i, size := range sizes {
		data := bytes.Repeat([]byte{byte(i), 1, 2}, size/3+1)[:size]
		for range 2 { // a repeat takes its place
			if err := s.Put(t.Context(), "a.0.0.i.0.0", data, sha256.Sum256(data)); err != nil {
				t.Fatal(err)
			}
		}
		got, sum, err := s.Get(t.Context(), "a.0.0.i.0.0", size)
		if err != nil || !bytes.Equal(got, data) || sum != sha256.Sum256(data) {
			t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
		}
		if _, _, err := s.Get(t.Context(), "a.0.0.i.0.0", size-1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes where fewer may be: %v", size, err)
		}
	}
	if err := s.Put(t.Context(), "ab.0.0.i.0.0", nil, sha256.Sum256(nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "a.0.0.i.0.0", math.MaxInt32); !errors.Is(err, ErrMissing) || s.count(t) != 1 {
		t.Errorf("%d are left; %v", s.count(t), err)
	}
}

// What is not what it says is found.
func TestCorrupt(t *testing.T) {
	s := open(t, testserver.Connect(t), as)
	data := make([]byte, 2*mostChunk)
	for name, spoil := range map[string]func(subject string) error{
		"another digest": func(subject string) error { return nil },
		"no header": func(subject string) error {
			_, err := s.conn.StoreBytes(t.Context(), subject+".0", data[:5], nil)
			return err
		},
		"a short chunk": func(subject string) error {
			_, err := s.conn.StoreBytes(t.Context(), subject+".1", data[:5], nil)
			return err
		},
	} {
		sum := sha256.Sum256(data)
		if name == "another digest" {
			sum[0]++
		}
		if err := s.Put(t.Context(), "a.0.0.i.0.0", data, sum); err != nil {
			t.Fatal(err)
		}
		if err := spoil(s.prefix + "a.0.0.i.0.0"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), "a.0.0.i.0.0", len(data)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A full store and one that is not there are told apart.
func TestNoRoom(t *testing.T) {
	conn := testserver.Connect(t)
	s := NewObjectStore(conn, streams)
	if err := s.Put(t.Context(), "a.0.0.i.0.0", []byte("x"), sha256.Sum256([]byte("x"))); !errors.Is(err, ErrNoStore) || errors.Is(err, ErrFull) {
		t.Errorf("without a store: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "a.0.0.i.0.0", 9); !errors.Is(err, ErrNoStore) {
		t.Errorf("without a store: %v", err)
	}
	s = open(t, conn, func(spec *schemas.StreamSpec) { spec.MaxBytes = 4096 })
	if err := s.Put(t.Context(), "a.0.0.i.0.0", make([]byte, 8192), Sum{}); !errors.Is(err, ErrFull) {
		t.Errorf("a full store: %v", err)
	}
}

// FuzzParse: what a chunk says of its object has bounds, or is refused.
func FuzzParse(f *testing.F) {
	f.Add("5 512 "+string(bytes.Repeat([]byte("0f"), 32)), 10)
	f.Add("5 5", 1)
	f.Add("-1 0 zz", 0)
	f.Fuzz(func(t *testing.T, text string, most int) {
		size, chunk, _, err := parse(text, most)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Error(err)
		case err == nil && (size < 0 || size > most || chunk < leastChunk):
			t.Errorf("%q: %d bytes in chunks of %d", text, size, chunk)
		}
	})
}
