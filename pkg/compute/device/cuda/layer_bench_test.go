//go:build cuda || emulate

package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// BenchmarkGPULayer is a layer's experts as the pipeline calls them, with all copies and
// waits: rows in, their sums out. GB/s are of the weights that a call has to read.
func BenchmarkGPULayer(b *testing.B) {
	m, err := model.Synthetic(layerModel, 7)
	if err != nil {
		b.Fatal(err)
	}
	d, err := Open(m, realKernels(b), images, Settings{Memory: layerMemory, Parts: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	layer := slices.IndexFunc(m.Spec.Layer, func(l model.LayerSpec) bool { return l.MoE })
	warmed(b, d, layer, m.Spec.Experts)
	for _, rows := range layerRows {
		b.Run(fmt.Sprintf("%s/rows=%d", layerModel, rows), func(b *testing.B) { benchLayer(b, d, m, layerCall(m, layer, rows)) })
	}
}

// layerCall has rows with as many of the experts each as a token has.
func layerCall(m *model.Model, layer, rows int) forward.Routed {
	from := rand.New(rand.NewPCG(1, 2))
	in := forward.Routed{Layer: layer, X: spread(rows * m.Spec.Hidden)}
	for row := range rows {
		for _, e := range from.Perm(m.Spec.Experts)[:m.Spec.TopK] {
			in.Source, in.Expert, in.Weight = append(in.Source, uint32(row)), append(in.Expert, uint32(e)), append(in.Weight, 1/float32(m.Spec.TopK))
		}
	}
	return in
}

func benchLayer(b *testing.B, d *Device, m *model.Model, in forward.Routed) {
	b.Helper()
	out, scratch := make([]float32, len(in.X)), &forward.ExpertScratch{}
	if err := d.Sums(in, out, scratch); err != nil {
		b.Fatal(err)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(in.Expert)))
	for b.Loop() {
		if err := d.Sums(in, out, scratch); err != nil {
			b.Fatal(err)
		}
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(len(distinct))*float64(d.shape.slot)/seconds/1e9, "GB/s")
	b.ReportMetric(float64(len(in.X)/m.Spec.Hidden)/seconds, "rows/s")
}
