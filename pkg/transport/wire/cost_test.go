package wire

import (
	"math"
	"testing"
)

func TestCheckByteSeconds(t *testing.T) {
	for _, tc := range []struct {
		name string
		all  []float32
		ok   bool
	}{
		{"none", nil, true},
		{"each", []float32{0, 1e9}, true},
		{"too few", []float32{1}, false},
		{"too many", []float32{1, 2, 3}, false},
		{"negative", []float32{1, -1}, false},
		{"no number", []float32{float32(math.NaN()), 1}, false},
		{"endless", []float32{1, float32(math.Inf(1))}, false},
		{"absurd", []float32{1, 1e18}, false},
	} {
		if err := CheckByteSeconds(tc.all, 2); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestCheckColdRows(t *testing.T) {
	for _, tc := range []struct {
		name string
		all  []uint32
		ok   bool
	}{
		{"none", nil, true}, {"all", []uint32{0, 1, 2}, true}, {"outside", []uint32{3}, false}, {"twice", []uint32{1, 1}, false}, {"back", []uint32{2, 1}, false},
	} {
		if err := CheckColdRows(tc.all, 3); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
