package sps

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func saved(t interface{ Fatal(...any) }, s *Store) []byte {
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A store that was saved and loaded is the same: its bytes, what it finds, and how it goes on.
func TestSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(2, 2+rapid.IntRange(1, 5).Draw(t, "more"))
		s.Model, s.Centred, s.Typical = "abc", rapid.Bool().Draw(t, "centred"), 0.25
		if rapid.Bool().Draw(t, "bounded") {
			s.Capacity = rapid.IntRange(2, 30).Draw(t, "capacity")
		}
		all := past(rapid.IntRange(0, 60).Draw(t, "prompts"), 4, s, 1)
		a, err := New(s, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range past(rapid.IntRange(0, 20).Draw(t, "added"), 3, s, 2) {
			if err := a.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		data := saved(t, a)
		b, err := Load(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, saved(t, b)) || a.Digest() != b.Digest() || b.whole(b.root) != nil {
			t.Fatalf("it is another one after it was loaded: %v", b.whole(b.root))
		}
		for _, p := range past(12, 5, s, 3) {
			if !reflect.DeepEqual(a.Search(p.Vector), b.Search(p.Vector)) || !slices.Equal(a.Average(), b.Average()) {
				t.Fatal("it finds others after it was loaded")
			}
			if err := errors.Join(a.Add(p), b.Add(p)); err != nil {
				t.Fatal(err)
			}
		}
		if a.Digest() != b.Digest() {
			t.Fatal("it goes on otherwise after it was loaded")
		}
	})
}

func snapshot(t testing.TB) []byte {
	t.Helper()
	s := small(2, 4)
	s.Model = "abc"
	y, err := New(s, past(20, 3, s, 1))
	if err != nil {
		t.Fatal(err)
	}
	return saved(t, y)
}

func TestLoadRefuses(t *testing.T) {
	whole := snapshot(t)
	for _, tt := range []struct {
		name string
		kind error
		data []byte
	}{
		{"empty", ErrNoSnapshot, nil},
		{"other", ErrNoSnapshot, []byte("{\"model\": 1}, and what follows")},
		{"begin", ErrDamaged, whole[:len(Magic)]},
		{"header", ErrDamaged, whole[:len(Magic)+30]},
		{"prompts", ErrDamaged, whole[:len(whole)/2]},
		{"digest", ErrDamaged, whole[:len(whole)-1]},
		{"more", ErrDamaged, append(slices.Clone(whole), 0)},
		{"huge header", ErrDamaged, append([]byte(Magic), 255, 255, 255, 255)},
		{"no JSON", ErrDamaged, append([]byte(Magic), 2, 0, 0, 0, 'a', 'b')},
		{"settings", ErrDamaged, bytes.Replace(whole, []byte(`"Beta":4`), []byte(`"Beta":1`), 1)},
		{"slots", ErrDamaged, bytes.Replace(whole, []byte(`"slots":20`), []byte(`"slots":29`), 1)},
	} {
		if _, err := Load(bytes.NewReader(tt.data)); !errors.Is(err, tt.kind) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for at := range whole { // any byte
		bad := slices.Clone(whole)
		bad[at] ^= 0x10
		if _, err := Load(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d was changed, and the store is taken", at)
		}
	}
}

// full takes so many bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestSaveFails(t *testing.T) {
	s, err := Load(bytes.NewReader(snapshot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{10, len(snapshot(t)) - 1} {
		if err := s.Save(&full{left}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%v", err)
		}
	}
}

func TestFits(t *testing.T) {
	s, err := Load(bytes.NewReader(snapshot(t)))
	if err != nil {
		t.Fatal(err)
	}
	none, err := New(s.Settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{"hash abc": s.Fits("xyz", 2, 4), "2 layers of 4": s.Fits("abc", 2, 8), "it is empty": none.Fits("abc", 2, 4)} {
		if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := s.Fits("abc", 2, 4); err != nil {
		t.Error(err)
	}
}

// Each input gets the digest that it needs to be looked at.
func FuzzLoad(f *testing.F) {
	whole := snapshot(f)
	f.Add(whole[:len(whole)-sha256.Size])
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha256.Sum256(data)
		s, err := Load(bytes.NewReader(append(slices.Clone(data), sum[:]...)))
		if err != nil {
			return
		}
		v := make([]float32, s.Width)
		v[0] = 1
		s.Predict(v)
		s.Average()
		if err := s.Save(io.Discard); err != nil {
			t.Error(err)
		}
	})
}
