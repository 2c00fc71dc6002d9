package batching

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	p := Policy{Microbatches: 2, MinRows: 4, MaxRows: 64}
	decode := func(n int) []Item { return make([]Item, n) }
	for _, tc := range []struct {
		name     string
		ready    []Item
		decoding int
		want     []Take
	}{
		{"nothing", nil, 0, nil},
		{"one", decode(1), 1, []Take{{0, 1}}},
		{"few stay together", decode(3), 3, []Take{{0, 1}, {1, 1}, {2, 1}}},
		{"many are shared", decode(8), 8, []Take{{0, 1}, {1, 1}, {2, 1}, {3, 1}}},
		{"prompt is cut", []Item{{Prefill: 100}}, 0, []Take{{0, 64}}},
		{"decode goes first", []Item{{Prefill: 100}, {}}, 1, []Take{{1, 1}, {0, 63}}},
		{"late ones wait for company", decode(3), 16, nil},
		{"a full share goes", decode(8), 16, []Take{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}},
		{"prompts do not wait", []Item{{}, {Prefill: 10}}, 16, []Take{{1, 10}}},
		{"one goes alone", []Item{{}, {Prefill: 10}, {Alone: true}, {}}, 3, []Take{{2, 1}}},
		{"one prompt does", []Item{{}, {Prefill: 100, Alone: true}}, 1, []Take{{1, 64}}},
		{"what encoders read has its turn", []Item{{Prefill: 9, Whole: true}, {}, {Prefill: 5}}, 1, []Take{{0, 9}}},
		{"and waits for it", []Item{{}, {Prefill: 9, Whole: true}, {Prefill: 5}}, 1, []Take{{0, 1}, {2, 5}}},
		{"unless others wait for company", []Item{{}, {Prefill: 9, Whole: true}}, 16, []Take{{1, 9}}},
		{"and together", []Item{{Prefill: 60, Whole: true}, {Prefill: 9, Whole: true}, {Prefill: 4, Whole: true}}, 0, []Take{{0, 60}, {2, 4}}},
		{"and uncut", []Item{{Prefill: 100, Whole: true}, {Prefill: 9, Whole: true}}, 0, []Take{{0, 100}}},
		{"alone, too", []Item{{Prefill: 9, Whole: true}, {Prefill: 100, Whole: true, Alone: true}}, 0, []Take{{1, 100}}},
		{"prompts share", []Item{{Prefill: 10}, {Prefill: 100}}, 0, []Take{{0, 10}, {1, 54}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := p.Next(tc.ready, tc.decoding, &Pace{}, nil); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNextBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Microbatches: rapid.IntRange(1, 4).Draw(t, "workers"), MinRows: rapid.IntRange(1, 16).Draw(t, "min"),
			MaxRows: rapid.IntRange(1, 100).Draw(t, "max"), MaxSeconds: rapid.Float64Range(0, 1).Draw(t, "seconds"),
			MinPrefill: rapid.IntRange(0, 20).Draw(t, "min prefill"),
		}
		pace := &Pace{}
		for range rapid.IntRange(0, 5).Draw(t, "seen") {
			seconds := rapid.Float64Range(0, 10)
			pace.Observe(rapid.IntRange(1, 100).Draw(t, "rows"), seconds.Draw(t, "layers"), rapid.IntRange(0, 100).Draw(t, "logits"), seconds.Draw(t, "head"))
		}
		prefills := rapid.SliceOfN(rapid.IntRange(0, 200), 0, 50).Draw(t, "ready")
		ready, decoding := make([]Item, len(prefills)), 0
		for i, n := range prefills {
			ready[i].Prefill, ready[i].Scored = n, rapid.IntRange(0, n).Draw(t, "scored")
			ready[i].Whole = n > 0 && rapid.IntRange(0, 9).Draw(t, "whole") == 0
			if n == 0 {
				decoding++
			}
		}
		rows, most, seen := 0, p.MaxRows, map[int]bool{}
		takes := p.Next(ready, decoding, pace, nil)
		for _, k := range takes {
			if seen[k.Index] || k.Rows < 1 || k.Rows > max(1, ready[k.Index].Prefill) {
				t.Fatalf("take %v of %v", k, ready[k.Index])
			}
			seen[k.Index] = true
			rows += k.Rows
			if it := ready[k.Index]; it.Whole != ready[takes[0].Index].Whole || it.Whole && k.Rows != it.Prefill {
				t.Fatalf("take %v of %v beside %v", k, it, ready[takes[0].Index])
			} else if it.Whole && len(takes) == 1 {
				most = max(most, k.Rows)
			}
		}
		if rows > most {
			t.Fatalf("%d rows, at most %d", rows, most)
		}
		if len(ready) > 0 && len(takes) == 0 { // nothing is in flight that it could wait for
			t.Fatal("nothing taken of what is ready")
		}
	})
}
