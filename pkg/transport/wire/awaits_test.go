package wire

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What is added is awaited, and nothing else.
func TestAwaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 40).Draw(t, "places")
		added := map[int]bool{}
		a := NewAwaits(places)
		for _, p := range rapid.SliceOf(rapid.IntRange(0, places-1)).Draw(t, "added") {
			a.Add(p)
			added[p] = true
		}
		for p := range places {
			if a.Has(p) != added[p] {
				t.Fatalf("%d of %v: %v", p, added, a.Has(p))
			}
		}
		if n := a.Count(places); n != len(added) {
			t.Fatalf("%d are awaited, %d were added", n, len(added))
		}
		if legal := len(added) > 0 && len(added) < places; (a.check(places) == nil) != legal {
			t.Fatalf("%d of %d: %v", len(added), places, a.check(places))
		}
	})
	if all := Awaits(nil); !all.Has(7) || all.Count(9) != 9 || all.check(9) != nil {
		t.Error("empty is not all")
	}
}

// A group of three rows and two slots has six places.
func TestCheckPlaces(t *testing.T) {
	s := &Shape{Identity: Identity{Model: 7}, Hidden: 1, Experts: 4, TopK: 2, MoE: []bool{true}, MaxRows: func() int { return 9 }}
	k := &pb.Key{Version: schemas.Version, Model: 7, Owner: "a", Rows: 3}
	for _, tc := range []struct {
		name   string
		awaits Awaits
		place  uint32
		good   bool
	}{
		{"all", nil, 5, true},
		{"awaited", Awaits{0b100000}, 5, true},
		{"not awaited", Awaits{0b011111}, 5, false},
		{"short", Awaits{}, 5, true},
		{"long", Awaits{0b100000, 0}, 5, false},
		{"a bit beyond", Awaits{0b1100000}, 5, false},
		{"none", Awaits{0}, 5, false},
		{"all by name", Awaits{0b111111}, 5, false},
		{"outside", nil, 6, false},
		{"far outside", nil, 1 << 31, false},
	} {
		err := s.checkPlaces(k, tc.awaits, []uint32{tc.place})
		if (err == nil) != tc.good || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
}
