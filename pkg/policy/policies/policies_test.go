package policies

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

var rewrite = flag.Bool("rewrite", false, "write docs/policies.md anew")

func TestPage(t *testing.T) {
	const file = "../../../docs/policies.md"
	if *rewrite {
		if err := os.WriteFile(file, []byte(registry.Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil || string(page) != registry.Page() {
		t.Errorf("docs/policies.md is not what the registry says; run go test ./pkg/policy/policies -rewrite (%v)", err)
	}
}

// large is a layer with skewed rows on many hosts that hold twice what they need to.
func large(t testing.TB, experts, hosts int) *world.World {
	t.Helper()
	const bytes = 44 << 20
	l := world.Layer{Number: 3}
	rows, slots := make([]float64, experts), max(2, 2*experts/hosts)
	for e := range experts {
		l.Units = append(l.Units, world.Unit{Unit: unit.Expert(3, e), Bytes: bytes})
		rows[e] = float64(int(65536 / (float64((e*37)%experts) + 1)))
	}
	w, err := world.New(l)
	if err != nil {
		t.Fatal(err)
	}
	w.CV, w.Due = 0.2, []int{0}
	w.Takes = cost.Device{Timer: cost.Roofline{Bandwidth: 700e9, Rate: 70e12, ElementBytes: 2}}
	var members world.Members
	room, held := world.Room{Spare: hosts*slots - experts}, world.Holds{}
	for h := range hosts {
		members = append(members, world.Host{ID: fmt.Sprintf("host-%04d", h), Tiers: []world.Tier{{Link: cost.Link{Latency: 0.1, Bandwidth: 20e9}}}})
		room.Bytes = append(room.Bytes, uint64(slots)*bytes)
	}
	for e := range experts {
		held.Held = append(held.Held, world.Held{Unit: e, Host: e % hosts})
	}
	for _, e := range []world.Event{members, room, held, world.Rows{Demand: world.Demand{Rows: rows}}} {
		if err := w.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Every policy answers on the same world with a decision that can be, twice the same, and
// leaves the world as it is.
func TestDecisions(t *testing.T) {
	for _, p := range registry.All(0) {
		if p.Decide == nil {
			continue
		}
		w := large(t, 16, 8)
		rows := slices.Clone(w.Layers[0].Rows())
		d, err := p.Decide(w)
		again, _ := p.Decide(w)
		if err != nil || d.Check(w) != nil || len(d.Layers) != 1 || !slices.Equal(d.Layers[0].Replicas, again.Layers[0].Replicas) {
			t.Errorf("%s: %+v, %v", p.Name, d, err)
		}
		has, on := map[int]bool{}, make([]int, len(w.Hosts))
		for _, r := range d.Layers[0].Replicas {
			has[r.Unit] = true
			on[r.Host]++
		}
		if len(has) != 16 || slices.Max(on) > 4 || !slices.Equal(rows, w.Layers[0].Rows()) || len(w.Layers[0].Held) != 16 {
			t.Errorf("%s: %d experts have a host, hosts have %v", p.Name, len(has), on)
		}
	}
}

// Where all hosts are gone no policy places anything, and none panics.
func TestNoHosts(t *testing.T) {
	for _, p := range registry.All(0) {
		if p.Decide == nil {
			continue
		}
		w := large(t, 16, 8)
		if err := w.Observe(world.Members{}); err != nil {
			t.Fatal(err)
		}
		if d, err := p.Decide(w); err == nil && (len(d.Layers) != 1 || len(d.Layers[0].Replicas) > 0) {
			t.Errorf("%s: %+v", p.Name, d)
		}
	}
}

// What one decision on a layer takes, of every policy that decides: go test -bench Decide,
// for benchstat.
func BenchmarkDecide(b *testing.B) {
	for _, p := range registry.All(0) {
		for _, size := range [][2]int{{8, 8}, {64, 1000}, {256, 1000}} {
			if p.Decide == nil {
				continue
			}
			b.Run(fmt.Sprintf("policy=%s/experts=%d/hosts=%d", p.Name, size[0], size[1]), func(b *testing.B) {
				w := large(b, size[0], size[1])
				for b.Loop() {
					if _, err := p.Decide(w); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
