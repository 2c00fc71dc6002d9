package kvcache

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// next takes the first out for whom so many free pages are enough.
func (l *Line[T]) next(free int) (who T, ok bool) {
	if who, ok = l.First(func(_ T, pages int) bool { return pages <= free }); ok {
		l.Serve(who)
	}
	return who, ok
}

func TestLine(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pages []int
		free  int
		want  []int // who is served, in order
	}{
		{"nobody", nil, 5, nil},
		{"in order", []int{1, 2, 2}, 5, []int{0, 1, 2}},
		{"as many as fit", []int{2, 2, 2}, 5, []int{0, 1}},
		{"a small one passes", []int{6, 2, 3}, 5, []int{1, 2}},
		{"a few do", []int{9, 1, 1, 1, 1, 1, 1}, 8, []int{1, 2, 3, 4}},
		{"nobody fits", []int{9, 7}, 5, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l Line[int]
			for who, pages := range tc.pages {
				l.Join(who, pages)
			}
			var got []int
			for free := tc.free; ; {
				who, ok := l.next(free)
				if !ok {
					break
				}
				free -= tc.pages[who]
				got = append(got, who)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// One that needs everything is served under a stream of small ones without end.
func TestLineServesTheLarge(t *testing.T) {
	const capacity = 8
	var l Line[int]
	free, held := capacity, []int{} // small ones that have a page
	l.Join(-1, capacity)
	for i := range 100 {
		l.Join(i, 1)
		for {
			who, ok := l.next(free)
			if !ok {
				break
			}
			if who == -1 {
				return
			}
			held, free = append(held, who), free-1
		}
		if len(held) > 2 || i > MaxPassed { // the oldest ends
			held, free = held[min(1, len(held)):], min(capacity, free+1)
		}
	}
	t.Errorf("not served; %d wait", l.Len())
}

// Whoever comes, leaves and ends in whatever order: nobody gets pages that are
// not free, nobody is passed more often than allowed, and when everything is
// free somebody is served.
func TestLineProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one := uniform(1, 1, 1)
		p, err := NewPool(one, rapid.Int64Range(1, 20).Draw(rt, "capacity")*one.PageBytes())
		if err != nil {
			rt.Fatal(err)
		}
		var l Line[int]
		var queue []int // the line, as it should be
		pages, passed, tables := map[int]int{}, map[int]int{}, map[int]*Table{}
		serve := func(rt *rapid.T) {
			for {
				who, ok := l.next(p.Free())
				if !ok {
					return
				}
				at := slices.Index(queue, who)
				for _, w := range queue[:at] {
					if passed[w]++; passed[w] > MaxPassed {
						rt.Fatalf("%d was passed %d times", w, passed[w])
					}
				}
				queue = slices.Delete(queue, at, at+1)
				table, err := p.Reserve(pages[who] * cpu.PagePositions)
				if err != nil {
					rt.Fatal(err)
				}
				tables[who] = table
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(rt *rapid.T) {
				who := len(pages)
				pages[who] = rapid.IntRange(1, p.capacity).Draw(rt, "pages")
				l.Join(who, pages[who])
				queue = append(queue, who)
				serve(rt)
			},
			"leave": func(rt *rapid.T) {
				if len(queue) == 0 {
					rt.Skip("nobody waits")
				}
				who := rapid.SampledFrom(queue).Draw(rt, "who")
				l.Leave(who)
				queue = slices.DeleteFunc(queue, func(w int) bool { return w == who })
				serve(rt)
			},
			"end": func(rt *rapid.T) {
				if len(tables) == 0 {
					rt.Skip("nobody has pages")
				}
				who := rapid.SampledFrom(slices.Sorted(maps.Keys(tables))).Draw(rt, "who")
				tables[who].Release()
				delete(tables, who)
				serve(rt)
			},
			"": func(rt *rapid.T) {
				used := 0
				for who := range tables {
					used += pages[who]
				}
				if used != p.Used() || used > p.Capacity() || l.Len() != len(queue) {
					rt.Fatalf("%d pages are held, %d used of %d; %d wait of %d", used, p.Used(), p.Capacity(), l.Len(), len(queue))
				}
			},
		})
		for len(tables)+len(queue) > 0 {
			if len(tables) == 0 {
				rt.Fatalf("all pages are free and %d wait", len(queue))
			}
			for who, table := range tables {
				table.Release()
				delete(tables, who)
			}
			serve(rt)
		}
	})
}
