package copies

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/place"
)

// roofed reads an expert of one byte in a second, and computes 100 rows in one.
var roofed = cost.Device{Timer: cost.Roofline{Bandwidth: 1, Rate: 200, ElementBytes: 1}}

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
	slices.Sort(text)
	return text
}

func TestDecide(t *testing.T) {
	dealt := on(0, 0, 1, 1, 2, 0, 3, 1)
	stays := []string{"0@0", "1@1", "2@0", "3@1"}
	for _, tc := range []struct {
		name     string
		state    State
		settings Settings
		want     []string
	}{
		{"even stays", State{experts(200, 200, 200, 200), hosts(2, 4), dealt}, Settings{Spare: 4}, stays},
		// Both hosts read two experts: a copy is a third reading of one of them.
		{"few rows stay", State{experts(60, 2, 50, 1), hosts(2, 4), dealt}, Settings{Spare: 4}, stays},
		{"many rows are shared", State{experts(900, 100, 100, 100), hosts(2, 4), dealt}, Settings{Spare: 4}, []string{"0@0", "0@1", "1@1", "2@0", "3@1"}},
		{"not worth it", State{experts(900, 100, 100, 100), hosts(2, 4), dealt}, Settings{Gain: 5, Spare: 4}, stays},
		{"no room", State{experts(900, 100, 100, 100), hosts(2, 2), dealt}, Settings{Spare: 4}, stays},
		{"none to spare", State{experts(900, 100, 100, 100), hosts(2, 4), dealt}, Settings{}, stays},
		{"what is warm may serve", State{experts(0, 0, 0, 0), hosts(2, 4), on(0, 0, 0, 1, 1, 1, 2, 0, 3, 1)}, Settings{Spare: 4}, []string{"0@0", "0@1", "1@1", "2@0", "3@1"}},
		{"from nothing", State{Experts: experts(3, 2, 1), Hosts: hosts(2, 2)}, Settings{}, []string{"0@0", "1@1", "2@0"}},
		// Two hosts are equally busy: one copy alone saves nothing.
		{"two copies or none", State{experts(400, 400, 0), hosts(3, 3), on(0, 0, 1, 1, 2, 2)}, Settings{Gain: 0.1, Spare: 3}, []string{"0@0", "0@2", "1@0", "1@1", "2@2"}},
	} {
		tc.settings.Device = roofed
		p, err := Decide(tc.state, tc.settings)
		if got := show(p); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
	if _, err := Decide(State{Experts: experts(1, 1), Hosts: hosts(1, 1)}, Settings{Device: roofed}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("two experts in the room of one: %v", err)
	}
	if _, err := Decide(State{Experts: experts(1)}, Settings{Device: roofed}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("no hosts: %v", err)
	}
}

// seconds are what a layer takes on what a placement has.
func seconds(s State, p place.Placement) float64 {
	d := divide.New(roofed, 1, len(s.Hosts))
	asked := make([]divide.Expert, len(s.Experts))
	for e, x := range s.Experts {
		asked[e].Rows = int(math.Ceil(x.Load))
	}
	for _, r := range p.Replicas {
		h := slices.IndexFunc(s.Hosts, func(h place.Host) bool { return h.ID == r.Host })
		asked[r.Expert].Hosts = append(asked[r.Expert].Hosts, h)
	}
	d.Least(nil, asked)
	return slices.Max(d.Busy())
}

// Every expert has a replica, no host has two of one, no more is loaded than fits and may
// be, what is loaded ends the layer sooner, the order of the input is nothing, and what is
// decided stays when nothing changes.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Hosts: hosts(rapid.IntRange(1, 5).Draw(t, "hosts"), 4)}
		for e := range rapid.IntRange(1, 2*len(s.Hosts)).Draw(t, "experts") {
			load := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 3), rapid.Float64Range(0, 2000)).Draw(t, "load")
			s.Experts = append(s.Experts, Expert{ID: uint32(e), Bytes: 1, Load: load})
			s.Warm = append(s.Warm, place.Warm{Expert: uint32(e), Host: s.Hosts[e%len(s.Hosts)].ID})
		}
		set := Settings{Device: roofed, Gain: rapid.Float64Range(0, 3).Draw(t, "gain"), Spare: rapid.IntRange(0, 10).Draw(t, "spare")}
		p, err := Decide(s, set)
		if err != nil {
			t.Fatal(err)
		}
		seen, held := map[string]bool{}, map[string]uint64{}
		for _, r := range p.Replicas {
			held[r.Host]++
			if id := fmt.Sprint(r.Expert, r.Host); seen[id] || held[r.Host] > 4 {
				t.Fatalf("%v", show(p))
			} else {
				seen[id] = true
			}
		}
		loaded := len(p.Replicas) - len(s.Experts)
		without, _ := Decide(s, Settings{Device: roofed})
		if before, after := seconds(s, without), seconds(s, p); loaded > set.Spare || after+float64(loaded)*set.Gain > before+1e-9 {
			t.Fatalf("%d loads: %v s, then %v s", loaded, before, after)
		}
		again, err := Decide(State{rapid.Permutation(s.Experts).Draw(t, "a"), rapid.Permutation(s.Hosts).Draw(t, "b"), rapid.Permutation(s.Warm).Draw(t, "c")}, set)
		if err != nil || !reflect.DeepEqual(show(p), show(again)) {
			t.Fatalf("%v, then %v, %v", show(p), show(again), err)
		}
		s.Warm = nil
		for _, r := range p.Replicas {
			s.Warm = append(s.Warm, place.Warm{Expert: r.Expert, Host: r.Host})
		}
		set.Gain = max(set.Gain, 1e-9)
		if next, err := Decide(s, set); err != nil || seconds(s, next) > seconds(s, p)+1e-9 {
			t.Fatalf("%v, then %v, %v", show(p), show(next), err)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range [][2]int{{8, 8}, {16, 8}, {256, 1000}} {
		b.Run(fmt.Sprintf("experts=%d/hosts=%d", size[0], size[1]), func(b *testing.B) {
			s := State{Hosts: hosts(size[1], 9)}
			for e := range size[0] {
				s.Experts = append(s.Experts, Expert{ID: uint32(e), Bytes: 1, Load: 40960 / math.Pow(float64((e*37)%size[0]+1), 0.8)})
				s.Warm = append(s.Warm, place.Warm{Expert: uint32(e), Host: s.Hosts[e%size[1]].ID})
			}
			for b.Loop() {
				if _, err := Decide(s, Settings{Device: roofed, Gain: 1, Spare: 3 * size[1]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
