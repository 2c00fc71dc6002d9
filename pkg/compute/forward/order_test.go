package forward

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Entries come by expert, those of one as they came, whatever was ordered before.
func TestByExpert(t *testing.T) {
	var b ByExpert
	rapid.Check(t, func(t *rapid.T) {
		experts := rapid.SliceOfN(rapid.Uint32Range(0, 1<<32-1), 0, 50).Draw(t, "experts")
		var want []int32
		for i := range experts {
			experts[i] %= rapid.SampledFrom([]uint32{3, 1 << 31}).Draw(t, "of")
			want = append(want, int32(i))
		}
		slices.SortStableFunc(want, func(x, y int32) int { return int(experts[x]) - int(experts[y]) })
		if got := b.Order(nil, experts); !slices.Equal(got, want) {
			t.Fatalf("%v of %v, want %v", got, experts, want)
		}
	})
}
