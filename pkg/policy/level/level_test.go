package level

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/place"
)

func experts(loads ...float64) (es []Expert) {
	for i, n := range loads {
		es = append(es, Expert{ID: uint32(i), Load: n, Bytes: 1})
	}
	return es
}

func hosts(n int, capacity uint64) (hs []place.Host) {
	for h := range n {
		hs = append(hs, place.Host{ID: fmt.Sprintf("h%04d", h), Capacity: capacity})
	}
	return hs
}

func on(pairs ...int) (ws []place.Warm) {
	for i := 0; i < len(pairs); i += 2 {
		ws = append(ws, place.Warm{Expert: uint32(pairs[i]), Host: fmt.Sprintf("h%04d", pairs[i+1])})
	}
	return ws
}

func show(p place.Placement) (text []string) {
	for _, r := range p.Replicas {
		text = append(text, fmt.Sprintf("%d@%s", r.Expert, r.Host[4:]))
	}
	return text
}

func TestDecide(t *testing.T) {
	loaded := on(0, 0, 1, 1, 2, 0, 3, 1)
	for _, tc := range []struct {
		name     string
		state    State
		settings Settings
		want     []string
	}{
		{"even stays", State{experts(2, 2, 2, 2), hosts(2, 4), loaded, loaded}, Settings{Spare: 4}, []string{"0@0", "1@1", "2@0", "3@1"}},
		{"tolerated", State{experts(2.1, 2, 2, 2), hosts(2, 4), loaded, loaded}, Settings{Tolerance: 0.05, Spare: 4}, []string{"0@0", "1@1", "2@0", "3@1"}},
		{"not worth it", State{experts(4, 2, 2, 2), hosts(2, 4), loaded, loaded}, Settings{Gain: 2, Spare: 4}, []string{"0@0", "1@1", "2@0", "3@1"}},
		{"a copy", State{experts(6, 2, 2, 2), hosts(2, 4), on(0, 0, 1, 1, 2, 1, 3, 0), on(0, 0, 1, 1, 2, 1, 3, 0)}, Settings{Spare: 1, Tolerance: 0.34}, []string{"0@0", "1@1", "2@1", "3@0"}},
		{"a move", State{experts(4, 0, 4, 0), hosts(2, 4), loaded, loaded}, Settings{}, []string{"0@1", "1@1", "2@0", "3@1"}},
		{"a warm one serves", State{experts(4, 0), hosts(2, 2), on(0, 0, 0, 1, 1, 1), on(0, 0, 1, 1)}, Settings{Gain: 1.5, Spare: 2}, []string{"0@0", "0@1", "1@1"}},
		{"from nothing", State{Experts: experts(3, 2, 1), Hosts: hosts(2, 2)}, Settings{}, []string{"0@0", "1@1", "2@1"}},
	} {
		p, err := Decide(tc.state, tc.settings)
		if got := show(p); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
	if _, err := Decide(State{Experts: experts(1, 1), Hosts: hosts(1, 1)}, Settings{}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("two experts in the room of one: %v", err)
	}
	if _, err := Decide(State{Experts: experts(1)}, Settings{}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("no hosts: %v", err)
	}
}

func draw(t *rapid.T) (State, Settings) {
	s := State{Hosts: hosts(rapid.IntRange(1, 5).Draw(t, "hosts"), 4)}
	for e := range rapid.IntRange(1, 4*len(s.Hosts)).Draw(t, "experts") {
		s.Experts = append(s.Experts, Expert{ID: uint32(e), Bytes: 1, Load: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 100)).Draw(t, "load")})
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "warm") {
		w := place.Warm{Expert: rapid.Uint32Range(0, uint32(len(s.Experts))).Draw(t, "expert"), Host: fmt.Sprintf("h%04d", rapid.IntRange(0, 5).Draw(t, "host"))}
		if s.Previous = append(s.Previous, w); i%2 == 0 {
			s.Serving = append(s.Serving, w)
		}
	}
	return s, Settings{Tolerance: rapid.Float64Range(0, 0.2).Draw(t, "tolerance"), Gain: rapid.Float64Range(0, 20).Draw(t, "gain"), Spare: rapid.IntRange(0, 10).Draw(t, "spare")}
}

// Every expert has a replica, no host has two of one or more than fits, no more
// replicas are there than may be, loads are those of the experts, the order of the
// input is nothing, and what is decided stays when nothing changes.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, set := draw(t)
		p, err := Decide(s, set)
		if err != nil {
			if !errors.Is(err, place.ErrNoRoom) {
				t.Fatal(err)
			}
			return
		}
		check(t, s, set, p)
		shuffled := State{rapid.Permutation(s.Experts).Draw(t, "a"), rapid.Permutation(s.Hosts).Draw(t, "b"), rapid.Permutation(s.Previous).Draw(t, "c"), rapid.Permutation(s.Serving).Draw(t, "d")}
		if again, err := Decide(shuffled, set); err != nil || !reflect.DeepEqual(show(p), show(again)) {
			t.Fatalf("%v, then %v, %v", show(p), show(again), err)
		}
		s.Previous, s.Serving = nil, nil
		for _, r := range p.Replicas {
			w := place.Warm{Expert: r.Expert, Host: r.Host}
			s.Previous, s.Serving = append(s.Previous, w), append(s.Serving, w)
		}
		if next, err := Decide(s, set); err != nil || most(next) > most(p)+1e-9 {
			t.Fatalf("%v, then %v, %v", p, next, err)
		}
	})
}

func check(t *rapid.T, s State, set Settings, p place.Placement) {
	replicas, loads := map[uint32]int{}, 0.0
	seen, held := map[place.Replica]bool{}, map[string]uint64{}
	for _, r := range p.Replicas {
		replicas[r.Expert]++
		held[r.Host]++
		if r.Warm = false; seen[r] {
			t.Fatalf("%v is there twice", r)
		}
		seen[r] = true
	}
	for _, e := range s.Experts {
		loads += e.Load
		if replicas[e.ID] < 1 {
			t.Fatalf("expert %d is nowhere", e.ID)
		}
	}
	sum := 0.0
	for _, h := range p.Hosts {
		sum += h.Load
		if held[h.ID] > 4 || h.Bytes != held[h.ID] {
			t.Fatalf("host %s holds %d: %+v", h.ID, held[h.ID], h)
		}
	}
	if math.Abs(sum-loads) > 1e-6 || len(p.Replicas) > len(s.Experts)+set.Spare {
		t.Fatalf("%d replicas of %d experts and %d, load %v of %v", len(p.Replicas), len(s.Experts), set.Spare, sum, loads)
	}
}

func most(p place.Placement) (m float64) {
	for _, h := range p.Hosts {
		m = max(m, h.Load)
	}
	return m
}

// Skewed loads end near the mean, which no placement is below.
func TestNearMean(t *testing.T) {
	s := State{Hosts: hosts(8, 4)}
	sum := 0.0
	for e := range 16 {
		n := 1000 / math.Pow(float64(e+1), 0.8)
		sum += n
		s.Experts = append(s.Experts, Expert{ID: uint32(e), Bytes: 1, Load: n})
		w := place.Warm{Expert: uint32(e), Host: s.Hosts[e%8].ID}
		s.Previous, s.Serving = append(s.Previous, w), append(s.Serving, w)
	}
	p, err := Decide(s, Settings{Tolerance: 0.02, Spare: 16})
	if err != nil || most(p) > 1.05*sum/8 {
		t.Errorf("%v of %v, %v", most(p), sum/8, err)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range [][2]int{{8, 8}, {16, 8}, {256, 1000}} {
		b.Run(fmt.Sprintf("experts=%d/hosts=%d", size[0], size[1]), func(b *testing.B) {
			s := State{Hosts: hosts(size[1], 9)}
			for e := range size[0] {
				s.Experts = append(s.Experts, Expert{ID: uint32(e), Bytes: 1, Load: 4096 / math.Pow(float64((e*37)%size[0]+1), 0.8)})
				w := place.Warm{Expert: uint32(e), Host: s.Hosts[e%size[1]].ID}
				s.Previous, s.Serving = append(s.Previous, w), append(s.Serving, w)
			}
			for b.Loop() {
				if _, err := Decide(s, Settings{Tolerance: 0.02, Spare: 3 * size[1]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
