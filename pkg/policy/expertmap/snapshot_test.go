package expertmap

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func save(t interface{ Fatal(...any) }, s *Store) []byte {
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A store that was saved and loaded is the same: its bytes, its digest, what it finds,
// and what it keeps of maps to come.
func TestSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSettings(t, 10)
		s, r := mustNewRapid(t, c), seeded(c.Shape, rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			change(t, s, r)
			s.Begin("a").Layer(1, r.row())
		}
		data := save(t, s)
		other, err := Load(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if again := save(t, other); !bytes.Equal(data, again) || s.Digest() != other.Digest() {
			t.Fatal("it is saved otherwise after it was loaded")
		}
		compareSearches(t, s, other, r)
		for range 2 {
			list := r.many(rapid.IntRange(1, 6).Draw(t, "more"))
			mustAdd(t, s, "b", list...)
			mustAdd(t, other, "b", list...)
		}
		if s.Digest() != other.Digest() {
			t.Fatal("it goes on otherwise after it was loaded")
		}
	})
}

// Different content has different digests.
func TestDigest(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Store, random){
		"empty":    func(*Store, random) {},
		"one":      func(s *Store, r random) { mustAdd(t, s, "a", r.one()) },
		"of b":     func(s *Store, r random) { mustAdd(t, s, "b", r.one()) },
		"two":      func(s *Store, r random) { mustAdd(t, s, "a", r.many(2)...) },
		"reversed": func(s *Store, r random) { list := r.many(2); mustAdd(t, s, "a", list[1], list[0]) },
	} {
		s := mustNew(t, settings(small, 5))
		change(s, seeded(small, 1))
		if other, is := seen[s.Digest()]; is {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[s.Digest()] = name
	}
}

// Uses count in the digest where they decide what is replaced.
func TestDigestOfUses(t *testing.T) {
	for _, rule := range []Replacement{Redundant, LeastUseful} {
		c := settings(small, 5)
		c.Replace = rule
		s, r := mustNew(t, c), seeded(small, 1)
		mustAdd(t, s, "a", r.one())
		before := s.Digest()
		s.Begin("a").Layer(1, r.row())
		if same := s.Digest() == before; same != (rule == Redundant) {
			t.Errorf("%s: the digest stays %v", rule, same)
		}
	}
}

// sample is a snapshot with maps of two tenants.
func sample(t testing.TB) []byte {
	t.Helper()
	s, r := mustNew(t, settings(small, 5)), seeded(small, 1)
	mustAdd(t, s, "a", r.many(2)...)
	mustAdd(t, s, "b", r.many(3)...)
	return save(t, s)
}

func TestLoadRefuses(t *testing.T) {
	whole := sample(t)
	for _, tt := range []struct {
		name string
		kind error
		data []byte
	}{
		{"empty", ErrNoSnapshot, nil},
		{"other", ErrNoSnapshot, []byte("{\"model\": 1}, and what follows")},
		{"begin", ErrDamaged, whole[:len(Magic)]},
		{"header", ErrDamaged, whole[:len(Magic)+30]},
		{"maps", ErrDamaged, whole[:len(whole)/2]},
		{"digest", ErrDamaged, whole[:len(whole)-1]},
		{"more", ErrDamaged, append(slices.Clone(whole), 0)},
		{"huge header", ErrDamaged, append([]byte(Magic), 255, 255, 255, 255)},
		{"no JSON", ErrDamaged, append([]byte(Magic), 2, 0, 0, 0, 'a', 'b')},
		{"settings", ErrDamaged, bytes.Replace(whole, []byte(`"capacity":5`), []byte(`"capacity":0`), 1)},
		{"clock", ErrDamaged, bytes.Replace(whole, []byte(`"clock":2`), []byte(`"clock":1`), 1)},
		{"maps lie", ErrDamaged, bytes.Replace(whole, []byte(`"maps":3}`), []byte(`"maps":9}`), 1)},
		{"tenant", ErrDamaged, bytes.Replace(whole, []byte(`"owners":["YQ=="]`), []byte(`"owners":["Yg=="]`), 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Load(bytes.NewReader(tt.data)); !errors.Is(err, tt.kind) {
				t.Errorf("got %v", err)
			}
		})
	}
	for at := range whole { // any byte
		bad := slices.Clone(whole)
		bad[at] ^= 0x10
		if _, err := Load(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d was changed and nobody saw it", at)
		}
	}
}

func TestFits(t *testing.T) {
	s, err := Load(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	other := small
	other.Experts++
	for name, err := range map[string]error{"model abc": s.Fits("xyz", small), "of 7 experts": s.Fits("abc", other)} {
		if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := s.Fits("abc", small); err != nil {
		t.Error(err)
	}
}

// After a tenant is forgotten, nothing of its maps is in a snapshot.
func TestForgetLeavesNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := settings(small, 9)
		c.Shared = shared
		s, r := mustNew(t, c), seeded(small, 1)
		a, b := r.many(3), r.many(3)
		mustAdd(t, s, "tenant-a", a[0], a[1])
		mustAdd(t, s, "tenant-b", b...)
		mustAdd(t, s, "tenant-a", a[2])
		of := func(m Map) []byte { return s.embeddings.Encode(nil, m.Embedding) }
		if data := save(t, s); !bytes.Contains(data, of(a[2])) {
			t.Fatal("the test looks for the wrong bytes")
		}
		s.Forget("tenant-a")
		data := save(t, s)
		for i, m := range a {
			if bytes.Contains(data, of(m)) || !bytes.Contains(data, of(b[i])) {
				t.Errorf("shared %v: map %d is there, or b's is not", shared, i)
			}
		}
		if bytes.Contains(data, []byte("dGVuYW50LWE")) {
			t.Errorf("shared %v: the tenant's name is there", shared)
		}
	}
}

// Each input gets the digest that it needs to be looked at.
func FuzzLoad(f *testing.F) {
	whole := sample(f)
	f.Add(whole[:len(whole)-sha256.Size])
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha256.Sum256(data)
		s, err := Load(bytes.NewReader(append(slices.Clone(data), sum[:]...)))
		if err != nil {
			return
		}
		if err := s.Save(io.Discard); err != nil {
			t.Error(err)
		}
		names, _ := s.Owners()
		for _, name := range names {
			q := s.Begin(name)
			q.Embedding(make([]float32, s.Embedding))
			s.Forget(name)
		}
		if s.MemoryBytes() != 0 {
			t.Error("something is left of tenants that were forgotten")
		}
	})
}
