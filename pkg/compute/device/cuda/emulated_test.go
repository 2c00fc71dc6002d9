//go:build emulate

package cuda

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda/emulate"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// With the real kernels, emulated, the device's results are the CPU's, and the same bits
// row by row.
func TestEmulated(t *testing.T) {
	p := pool.New(1)
	t.Cleanup(p.Close)
	for name, m := range models(t) {
		t.Run(name, func(t *testing.T) {
			driver, err := emulate.NewDriver()
			if err != nil {
				t.Fatal(err)
			}
			d, err := open(m, driver, images, Settings{Memory: 16 << 20, Parts: 2}, tuning{rows: 80})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			c := device.NewCPU(m, p, device.Settings{})
			t.Cleanup(c.Close)
			in := rowsFor(m, 70)
			for e := range m.Spec.Experts {
				for _, on := range []device.Device{d, c} {
					if err := on.Load(t.Context(), forward.ExpertID{Layer: in.Layer, Expert: e}, 0).Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, want := computed(t, d, in, m), computed(t, c, in, m)
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
					t.Fatalf("element %d is %v, %v on the CPU", i, got[i], want[i])
				}
			}
			for i := range 10 {
				one := forward.Routed{Layer: in.Layer, X: in.X, Source: in.Source[i : i+1], Expert: in.Expert[i : i+1], Weight: in.Weight[i : i+1]}
				for j, v := range computed(t, d, one, m) {
					if v != got[i*m.Spec.Hidden+j] {
						t.Fatalf("row %d: element %d is %v alone, %v with others", i, j, v, got[i*m.Spec.Hidden+j])
					}
				}
			}
		})
	}
}
