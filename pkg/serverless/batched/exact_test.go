package batched

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
)

// sized is a model of so many layers and experts, with a batch of 10,240 rows a slot whose experts
// differ as those of a mixture do.
func sized(t testing.TB, layers, experts int) (*scatter.System, [][]float64) {
	t.Helper()
	p, err := profiles.OpenPlatform("lambda")
	if err != nil {
		t.Fatal(err)
	}
	const rows = 10240
	shape := Shape{Name: "sized", Layers: layers, Experts: experts, TopK: 1, Hidden: 768, Inner: 3072, Matrices: 2, Vocab: 30522}
	s, err := shape.System(Conditions{Platform: p.Cost()}, rows)
	if err != nil {
		t.Fatal(err)
	}
	state, loads := splitmix.Mix(1), make([][]float64, layers)
	for l := range loads {
		sum, shares := 0.0, make([]float64, experts)
		for e := range shares {
			u := splitmix.Unit(splitmix.Next(&state))
			shares[e] = 0.1 + u*u
			sum += shares[e]
		}
		for _, share := range shares {
			loads[l] = append(loads[l], float64(int(rows*share/sum)))
		}
	}
	return s, loads
}

// Section V-D: planning times at sizes of models, as limits come near what no plan keeps.
func BenchmarkExact(b *testing.B) {
	sizes := [][2]int{{12, 4}, {24, 16}}
	if os.Getenv("SWITCHYARD_SIZE") != "" {
		sizes = append(sizes, [2]int{61, 256}) // half a minute each
	}
	for _, size := range sizes {
		s, loads := sized(b, size[0], size[1])
		var no *ods.Infeasible
		if _, err := ods.Exact(s, loads, 0, ods.Default()); !errors.As(err, &no) {
			b.Fatal(err)
		}
		each := ods.Default()
		each.PerLayer = true
		for _, times := range []float64{1.02, 1.1, 1.5} {
			for name, plan := range map[string]func() (*ods.Result, error){
				"exact":           func() (*ods.Result, error) { return ods.Exact(s, loads, times*no.Least, ods.Default()) },
				"exact-per-layer": func() (*ods.Result, error) { return ods.Exact(s, loads, times*no.Least, each) },
				"ods":             func() (*ods.Result, error) { return ods.ODS(s, loads, times*no.Least, ods.Default()) },
			} {
				b.Run(fmt.Sprintf("%dx%d/limit=%v/%s", size[0], size[1], times, name), func(b *testing.B) {
					for range b.N {
						r, err := plan()
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(100*r.Gap(), "gap%")
					}
				})
			}
		}
	}
}
