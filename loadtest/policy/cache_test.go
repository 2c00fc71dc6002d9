package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/registry"
)

func TestCache(t *testing.T) {
	for _, tc := range []struct {
		name, state string
		want        int
	}{
		{"belady", `{"capacity": 3, "accesses": [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]}`, 9},
		{"lru", `{"capacity": 3, "accesses": [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]}`, 12},
		{"lfu", `{"capacity": 2, "accesses": [4294967295, 4294967295, 1, 2, 1, 4294967295]}`, 4},
		{"lfu", `{"capacity": 2, "accesses": [1, 2, 3, 2]}`, 3},
		{"lru", `{"capacity": 5, "accesses": []}`, 0},
	} {
		got, err := Cache(tc.name, strings.NewReader(tc.state))
		if err != nil || got.Loads != tc.want {
			t.Errorf("%s of %s: %v, %v, want %d", tc.name, tc.state, got, err, tc.want)
		}
	}
	if _, err := Cache("fifo", strings.NewReader(`{}`)); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestBadCaches(t *testing.T) {
	for state, want := range map[string]string{
		`{"capacity": 0, "accesses": [1]}`:            "capacity is 0",
		`{"capacity": -1, "accesses": [1]}`:           "capacity is -1",
		`{"capacity": 1.5, "accesses": [1]}`:          "capacity is 1.5",
		`{"accesses": [1]}`:                           "capacity is missing",
		`{"capacity": 1}`:                             "accesses is missing",
		`{"capacity": 1, "accesses": 3}`:              "accesses must be a list",
		`{"capacity": 1, "accesses": ["a"]}`:          "accesses[0] must be the id of an expert",
		`{"capacity": 1, "accesses": [1, -1]}`:        "accesses[1] must be the id of an expert",
		`{"capacity": 1, "accesses": [4294967296]}`:   "accesses[0] must be the id of an expert",
		`{"capacity": 1, "accesses": [], "sizes": 1}`: "sizes is unknown; fields here are capacity, accesses",
	} {
		if _, err := Cache("lru", strings.NewReader(state)); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", state, err, want)
		}
	}
}

// victims say, of the experts that are held at an access, which goes.
var victims = map[string]func(held, accesses []int, at int) int{
	"belady": func(held, accesses []int, at int) int {
		return best(held, func(e int) int {
			if next := slices.Index(accesses[at:], e); next >= 0 {
				return -next
			}
			return -len(accesses)
		})
	},
	"lru": func(held, accesses []int, at int) int {
		return best(held, func(e int) int {
			last := at - 1
			for accesses[last] != e {
				last--
			}
			return last
		})
	},
	"lfu": func(held, accesses []int, at int) int {
		return best(held, func(e int) (n int) {
			for _, other := range accesses[:at] {
				if other == e {
					n++
				}
			}
			return n
		})
	},
}

// best is the expert with the least worth, the lower one of several.
func best(held []int, worth func(int) int) int {
	return slices.MinFunc(slices.Sorted(slices.Values(held)), func(a, b int) int { return worth(a) - worth(b) })
}

// Loads are those of each order's definition, and none has fewer than Belady's.
func TestCacheIsAsDefined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accesses := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 40).Draw(t, "accesses")
		capacity := rapid.IntRange(1, 7).Draw(t, "capacity")
		state, err := json.Marshal(map[string]any{"capacity": capacity, "accesses": accesses})
		if err != nil {
			t.Fatal(err)
		}
		loads := map[string]int{}
		for name, victim := range victims {
			var held []int
			for at, e := range accesses {
				if slices.Contains(held, e) {
					continue
				}
				loads[name]++
				if len(held) == capacity {
					gone := victim(held, accesses, at)
					held = slices.DeleteFunc(held, func(h int) bool { return h == gone })
				}
				held = append(held, e)
			}
			got, err := Cache(name, strings.NewReader(string(state)))
			if err != nil || got.Loads != loads[name] {
				t.Fatalf("%s of %s: %v, %v, want %d", name, state, got, err, loads[name])
			}
		}
		if loads["belady"] > min(loads["lru"], loads["lfu"]) {
			t.Fatal(fmt.Sprint(loads))
		}
	})
}
