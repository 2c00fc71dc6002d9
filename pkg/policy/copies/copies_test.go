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
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// roofed reads an expert of one byte in a second, and computes 100 rows in one.
var roofed = cost.Device{Timer: cost.Roofline{Bandwidth: 1, Rate: 200, ElementBytes: 1}}

func experts(loads ...float64) (es []Expert) {
	for _, n := range loads {
		es = append(es, Expert{Load: n, Bytes: 1})
	}
	return es
}

func hosts(n int, room uint64) []uint64 { return slices.Repeat([]uint64{room}, n) }

func on(pairs ...int) (held []world.Held) {
	for i := 0; i < len(pairs); i += 2 {
		held = append(held, world.Held{Unit: pairs[i], Host: pairs[i+1]})
	}
	return held
}

func show(rs []world.Replica) (text []string) {
	for _, r := range rs {
		text = append(text, fmt.Sprintf("%d@%d", r.Unit, r.Host))
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
		{"from nothing", State{Experts: experts(3, 2, 1), Room: hosts(2, 2)}, Settings{}, []string{"0@0", "1@1", "2@0"}},
		// Two hosts are equally busy: one copy alone saves nothing.
		{"two copies or none", State{experts(400, 400, 0), hosts(3, 3), on(0, 0, 1, 1, 2, 2)}, Settings{Gain: 0.1, Spare: 3}, []string{"0@0", "0@2", "1@0", "1@1", "2@2"}},
	} {
		tc.settings.Device = roofed
		p, err := Decide(tc.state, tc.settings)
		if got := show(p); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
	if _, err := Decide(State{Experts: experts(1, 1), Room: hosts(1, 1)}, Settings{Device: roofed}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("two experts in the room of one: %v", err)
	}
	if _, err := Decide(State{Experts: experts(1)}, Settings{Device: roofed}); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("no hosts: %v", err)
	}
}

// seconds are what a layer takes on what a placement has.
func seconds(s State, rs []world.Replica) float64 {
	d := divide.New(roofed, 1, len(s.Room))
	asked := make([]divide.Expert, len(s.Experts))
	for e, x := range s.Experts {
		asked[e].Rows = int(math.Ceil(x.Load))
	}
	for _, r := range rs {
		asked[r.Unit].Hosts = append(asked[r.Unit].Hosts, r.Host)
	}
	d.Least(nil, asked)
	return slices.Max(d.Busy())
}

// Every expert has a replica, no host has two of one, no more is loaded than fits and may
// be, what is loaded ends the layer sooner, the order of what is held is nothing, and what is
// decided stays when nothing changes.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Room: hosts(rapid.IntRange(1, 5).Draw(t, "hosts"), 4)}
		for e := range rapid.IntRange(1, 2*len(s.Room)).Draw(t, "experts") {
			load := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 3), rapid.Float64Range(0, 2000)).Draw(t, "load")
			s.Experts = append(s.Experts, Expert{Bytes: 1, Load: load})
			s.Held = append(s.Held, world.Held{Unit: e, Host: e % len(s.Room)})
		}
		set := Settings{Device: roofed, Gain: rapid.Float64Range(0, 3).Draw(t, "gain"), Spare: rapid.IntRange(0, 10).Draw(t, "spare")}
		p, err := Decide(s, set)
		if err != nil {
			t.Fatal(err)
		}
		seen, held := map[world.Replica]bool{}, map[int]uint64{}
		for _, r := range p {
			held[r.Host]++
			if seen[r] || held[r.Host] > 4 {
				t.Fatalf("%v", show(p))
			}
			seen[r] = true
		}
		loaded := len(p) - len(s.Experts)
		without, _ := Decide(s, Settings{Device: roofed})
		if before, after := seconds(s, without), seconds(s, p); loaded > set.Spare || after+float64(loaded)*set.Gain > before+1e-9 {
			t.Fatalf("%d loads: %v s, then %v s", loaded, before, after)
		}
		again, err := Decide(State{s.Experts, s.Room, rapid.Permutation(s.Held).Draw(t, "order")}, set)
		if err != nil || !reflect.DeepEqual(show(p), show(again)) {
			t.Fatalf("%v, then %v, %v", show(p), show(again), err)
		}
		s.Held = nil
		for _, r := range p {
			s.Held = append(s.Held, world.Held(r))
		}
		set.Gain = max(set.Gain, 1e-9)
		if next, err := Decide(s, set); err != nil || seconds(s, next) > seconds(s, p)+1e-9 {
			t.Fatalf("%v, then %v, %v", show(p), show(next), err)
		}
	})
}

// What waits makes moeless+lean load what it would not else, and keep it longer.
func TestQueue(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy string
		queued float64
		want   int // replicas
		keep   float64
	}{
		{"calm", "moeless+lean", 0, 4, 0.4}, {"a queue", "moeless+lean", 0.5, 5, 25.4}, {"moeless+ has no queue", "moeless+", 0.5, 4, 0},
	} {
		var l world.Layer
		for e := range 4 {
			l.Units = append(l.Units, world.Unit{Unit: unit.Expert(0, e), Bytes: 1})
		}
		w, err := world.New(l)
		if err != nil {
			t.Fatal(err)
		}
		tiers := []world.Tier{{Link: cost.Link{Latency: 70}}}
		for _, e := range []world.Event{
			world.Members{{ID: "a", Tiers: tiers}, {ID: "b", Tiers: tiers}}, world.Room{Bytes: []uint64{4, 4}, Spare: 4}, world.Holds{Held: on(0, 0, 1, 1, 2, 0, 3, 1)},
			world.Rows{Demand: world.Demand{Rows: []float64{700, 100, 100, 100}}},
		} {
			if err := w.Observe(e); err != nil {
				t.Fatal(err)
			}
		}
		w.Takes, w.Due, w.Queued = roofed, []int{0}, tc.queued
		at := slices.IndexFunc(Policies(), func(p registry.Policy) bool { return p.Name == tc.policy })
		d, err := Policies()[at].With(nil).Decide(w)
		if err != nil || len(d.Layers[0].Replicas) != tc.want || math.Abs(d.Layers[0].Keep-tc.keep) > 1e-9 {
			t.Errorf("%s: %+v, %v; want %d replicas, kept %v s", tc.name, d.Layers, err, tc.want, tc.keep)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range [][2]int{{8, 8}, {16, 8}, {256, 1000}} {
		b.Run(fmt.Sprintf("experts=%d/hosts=%d", size[0], size[1]), func(b *testing.B) {
			s := State{Room: hosts(size[1], 9)}
			for e := range size[0] {
				s.Experts = append(s.Experts, Expert{Bytes: 1, Load: 40960 / math.Pow(float64((e*37)%size[0]+1), 0.8)})
				s.Held = append(s.Held, world.Held{Unit: e, Host: e % size[1]})
			}
			for b.Loop() {
				if _, err := Decide(s, Settings{Device: roofed, Gain: 1, Spare: 3 * size[1]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
