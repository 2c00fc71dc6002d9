package quality

import (
	"slices"
	"testing"
)

// Choices go on with what stands at the same place in three other texts of the domain: first at the end of the
// first length of each text, then of the second, as far as all four have it.
func TestChoices(t *testing.T) {
	of := func(domain int, lengths ...int) (list []text) {
		for i, n := range lengths {
			one := text{domain: domain}
			for k := range n {
				one.ids = append(one.ids, uint32(1000*domain+100*i+k))
			}
			list = append(list, one)
		}
		return list
	}
	for name, tc := range map[string]struct {
		domains [][]text
		most    int
		from    []int    // of each choice
		first   []uint32 // token of each choice
	}{
		"none wanted":        {[][]text{of(0, 8, 8, 8, 8)}, 0, nil, nil},
		"too few texts":      {[][]text{of(0, 8, 8, 8)}, 9, nil, nil},
		"one of them short":  {[][]text{of(0, 8, 8, 7, 8, 8, 8, 8)}, 9, []int{6}, []uint32{300}},
		"two lengths of one": {[][]text{of(0, 16, 17, 18, 16, 9)}, 9, []int{6, 6, 14}, []uint32{0, 100, 0}},
		"domains in turn":    {[][]text{of(0, 8, 8, 8, 8, 8), of(1, 16, 16, 16, 16)}, 3, []int{6, 6, 6}, []uint32{0, 1000, 100}},
		"no more than that":  {[][]text{of(0, 16, 16, 16, 16)}, 1, []int{6}, []uint32{0}},
	} {
		got := choices(tc.domains, 8, tc.most)
		var from []int
		var first []uint32
		for _, c := range got {
			from, first = append(from, c.from[0]), append(first, c.whole[0][0])
			for k, ids := range c.whole {
				if len(ids) != c.from[k]+2 || !slices.Equal(ids[:c.from[k]], c.whole[0][:c.from[0]]) || k > 0 && ids[c.from[k]] == c.whole[0][c.from[0]] || c.right != 0 {
					t.Errorf("%s: %+v", name, c)
				}
			}
		}
		if !slices.Equal(from, tc.from) || !slices.Equal(first, tc.first) {
			t.Errorf("%s: choices from %v of texts that begin with %v, want %v, %v", name, from, first, tc.from, tc.first)
		}
	}
}
