package aggregator

import (
	"slices"
	"testing"
)

// A row has what its places took, sums and slots, and of what is repeated nothing.
func TestCosts(t *testing.T) {
	gs, k := newGroups(shape(2), room), key(2)
	x := noise(1, 6*width)
	first := partial(k, x, []int{0, 2}) // slots of both rows
	first.ByteSeconds = []float32{1, 2}
	second := partial(k, x, []int{0, 5}) // one again, and the sum of the other row
	second.ByteSeconds = []float32{100, 4}
	third := partial(k, x, []int{1})
	third.ByteSeconds = []float32{8}
	if _, out, err := gs.add(first, now); out != waiting || err != nil {
		t.Fatal(out, err)
	}
	if _, out, err := gs.add(second, now); out != waiting || err != nil {
		t.Fatal(out, err)
	}
	g, out, err := gs.add(third, now)
	if out != whole || err != nil {
		t.Fatal(out, err)
	}
	if want := []float32{9, 6}; !slices.Equal(g.took, want) {
		t.Errorf("%v, want %v", g.took, want)
	}
	gs.release(g)
	other := key(2)
	other.Step++
	for i := range 4 {
		g, _, err = gs.add(partial(other, x, []int{i}), now)
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(g.took) > 0 {
		t.Errorf("a group that nobody metered has %v of the one before", g.took)
	}
}
