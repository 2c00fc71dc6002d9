package place

import (
	"fmt"
	"math"
	"testing"
)

// layer is a layer as scaling leaves it: Zipf's loads, replicas by load, and half
// of them where they were before.
func layer(experts, hosts int) State {
	s := State{}
	for h := range hosts {
		s.Hosts = append(s.Hosts, Host{ID: fmt.Sprintf("host-%04d", h), Capacity: 40 * 44 << 20})
	}
	for i := range experts {
		load := 4096 / math.Pow(float64((i*37)%experts+1), 0.8)
		n := min(hosts, int(load/8)+1)
		s.Experts = append(s.Experts, Expert{ID: uint32(i), Replicas: n, LoadEach: load / float64(n), Bytes: 44 << 20})
		for r := 0; r < n; r += 2 {
			s.Previous = append(s.Previous, Warm{uint32(i), fmt.Sprintf("host-%04d", (i*31+r)%hosts)})
		}
	}
	return s
}

// A layer of DeepSeek-V3's size on up to 1,000 hosts.
func BenchmarkPlace(b *testing.B) {
	for _, name := range []string{"moeless", "eplb", "round-robin"} {
		for _, size := range [][2]int{{64, 1000}, {256, 250}, {256, 500}, {256, 1000}} {
			b.Run(fmt.Sprintf("policy=%s/experts=%d/hosts=%d", name, size[0], size[1]), func(b *testing.B) {
				s := layer(size[0], size[1])
				placed := 0
				for b.Loop() {
					p, err := policies[name](s)
					if err != nil {
						b.Fatal(err)
					}
					placed = len(p.Replicas)
				}
				b.ReportMetric(float64(placed), "replicas")
			})
		}
	}
}
