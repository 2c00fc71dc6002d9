package divide

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// reads takes 100 s to read an expert, and 1 s a row: from 100 rows on a row costs.
var reads = cost.Device{Timer: cost.Roofline{Bandwidth: 1, Rate: 200, ElementBytes: 1}}

const bytes = 100

// printed takes 1 s a row.
var printed = cost.Device{Timer: cost.Printed{Alpha: 1}}

func TestLeast(t *testing.T) {
	for _, tc := range []struct {
		name    string
		device  cost.Device
		experts []Expert
		want    []Share
	}{
		{"few rows stay together", reads, []Expert{{Rows: 8, Hosts: []int{0, 1, 2}}}, []Share{{0, 0, 8}}},
		{"many are divided", reads, []Expert{{Rows: 600, Hosts: []int{0, 1, 2}}}, []Share{{0, 0, 200}, {0, 1, 200}, {0, 2, 200}}},
		{"down to one reading", reads, []Expert{{Rows: 150, Hosts: []int{0, 1, 2}}}, []Share{{0, 0, 75}, {0, 1, 75}}},
		{"the idle host", reads, []Expert{{Rows: 9, Hosts: []int{0}}, {Rows: 8, Hosts: []int{0, 1}}}, []Share{{0, 0, 9}, {1, 1, 8}}},
		{"more rows to it", reads, []Expert{{Rows: 1000, Hosts: []int{0}}, {Rows: 1000, Hosts: []int{0, 1}}}, []Share{{0, 0, 1000}, {1, 1, 1000}}},
		{"by rows alone", printed, []Expert{{Rows: 8, Hosts: []int{0, 1}}, {Rows: 2, Hosts: []int{1}}}, []Share{{0, 0, 4}, {0, 1, 4}, {1, 1, 2}}},
		{"no rows", reads, []Expert{{Rows: 0, Hosts: []int{0}}, {Rows: 1, Hosts: []int{1}}}, []Share{{1, 1, 1}}},
		{"nothing", reads, nil, nil},
	} {
		if got := New(tc.device, bytes, 3).Least(nil, tc.experts); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestEven(t *testing.T) {
	got := Even(nil, []Expert{{Rows: 5, Hosts: []int{0, 2}}, {Rows: 1, Hosts: []int{0, 1}}, {Rows: 0, Hosts: []int{1}}}, 0)
	want := []Share{{0, 0, 3}, {0, 2, 2}, {1, 1, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// ends is when the busiest host is done.
func ends(d cost.Device, shares []Share, hosts int) float64 {
	busy := make([]float64, hosts)
	for _, s := range shares {
		busy[s.Host] += d.Seconds(cost.Access{Bytes: bytes, Rows: s.Rows})
	}
	return slices.Max(busy)
}

// atHome leaves all rows at their experts' homes.
func atHome(experts []Expert) (shares []Share) {
	for e, x := range experts {
		if x.Rows > 0 {
			shares = append(shares, Share{e, x.Hosts[0], x.Rows})
		}
	}
	return shares
}

// Every row is computed once, by a host that has its expert, and the same way again. The layer
// never takes longer than with all rows at home, nor, where each host has all experts, by
// Graham's bound, than when rows are divided evenly.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]cost.Device{reads, printed}).Draw(t, "device")
		hosts, everywhere := rapid.IntRange(1, 6).Draw(t, "hosts"), rapid.Bool().Draw(t, "everywhere")
		experts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Expert {
			least := 1
			if everywhere {
				least = hosts
			}
			on := rapid.SliceOfNDistinct(rapid.IntRange(0, hosts-1), least, hosts, rapid.ID).Draw(t, "on")
			slices.Sort(on)
			return Expert{Rows: rapid.IntRange(0, 2000).Draw(t, "rows"), Hosts: on}
		}), 1, 12).Draw(t, "experts")
		divider := New(d, bytes, hosts)
		shares := divider.Least(nil, experts)
		rows := make([]int, len(experts))
		for _, s := range shares {
			if s.Rows < 1 || !slices.Contains(experts[s.Expert].Hosts, s.Host) {
				t.Fatalf("%v of %v", s, experts)
			}
			rows[s.Expert] += s.Rows
		}
		for e, x := range experts {
			if rows[e] != x.Rows {
				t.Fatalf("expert %d has %d rows of %d in %v", e, rows[e], x.Rows, shares)
			}
		}
		least, even, home := ends(d, shares, hosts), ends(d, Even(nil, experts, 0), hosts), ends(d, atHome(experts), hosts)
		if least > home {
			t.Fatalf("%v takes %v, at home %v", shares, least, home)
		}
		if everywhere && least > even*4/3+4 { // 4 for rounding
			t.Fatalf("%v takes %v, evenly %v", shares, least, even)
		}
		if again := divider.Least(nil, experts); !slices.Equal(again, shares) {
			t.Fatalf("%v, then %v", shares, again)
		}
		if math.IsNaN(least) {
			t.Fatal("no time")
		}
	})
}

func BenchmarkLeast(b *testing.B) {
	for _, tc := range []struct {
		name                     string
		experts, hosts, replicas int
	}{{"8x8", 8, 8, 2}, {"256x64", 256, 64, 2}} {
		b.Run(tc.name, func(b *testing.B) {
			var experts []Expert
			for e := range tc.experts {
				x := Expert{Rows: 1 + e*e%97}
				for r := range tc.replicas {
					x.Hosts = append(x.Hosts, (e+r*7)%tc.hosts)
				}
				slices.Sort(x.Hosts)
				experts = append(experts, x)
			}
			d, to := New(reads, bytes, tc.hosts), []Share(nil)
			b.ReportAllocs()
			for b.Loop() {
				to = d.Least(to[:0], experts)
			}
		})
	}
}
