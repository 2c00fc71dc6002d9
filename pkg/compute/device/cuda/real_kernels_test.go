//go:build cuda || emulate

package cuda

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// With the real kernels the device's results are the CPU's, and the same bits row by row and
// in calls of every size.
func TestRealKernels(t *testing.T) {
	p := pool.New(1)
	t.Cleanup(p.Close)
	for name, m := range models(t) {
		t.Run(name, func(t *testing.T) { realKernelsAgree(t, m, p, Settings{Memory: 64 << 20, Parts: 2}) })
	}
}

// So are they by wgmma, where the GPU has it.
func TestRealWgmma(t *testing.T) {
	p := pool.New(1)
	t.Cleanup(p.Close)
	for name, m := range models(t) {
		for parts := 1; parts <= 2; parts++ {
			t.Run(fmt.Sprintf("%s p%d", name, parts), func(t *testing.T) {
				realKernelsAgree(t, m, p, Settings{Memory: 64 << 20, Parts: parts, Kernels: cuda.Wgmma})
			})
		}
	}
}

// With the real kernel random weights are the CPU's, wherever they lie.
func TestRealRandom(t *testing.T) {
	randomMatrices(t, realKernels(t), 30)
	for _, kernels := range []cuda.Kernels{cuda.Mma, cuda.Wgmma} {
		t.Run(string(kernels), func(t *testing.T) {
			driver := realKernels(t)
			if err := kernels.On(driver.Info()); err != nil {
				_ = driver.Close() // says only what a call has said
				t.Skip(err)
			}
			randomAsCopied(t, driver, kernels)
		})
	}
	t.Run("attention", func(t *testing.T) { randomAttention(t, realKernels(t)) })
}

func realKernelsAgree(t *testing.T, m *model.Model, p *pool.Pool, s Settings) {
	t.Helper()
	driver := realKernels(t)
	if err := s.Kernels.On(driver.Info()); err != nil {
		_ = driver.Close() // says only what a call has said
		t.Skip(err)
	}
	d, err := open(m, driver, images, s, tuning{rows: max(80, mostTogether)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	c := device.NewCPU(m, p, device.Settings{})
	t.Cleanup(c.Close)
	in, got := agrees(t, m, d, c, []float64{0, 2e-2, 1e-4}[s.Parts])
	for i := range 10 {
		sameBits(t, m, computed(t, d, only(in, i, i+1), m), got[i*m.Spec.Hidden:])
	}
	sumsAgree(t, m, d)
	togetherAsAlone(t, d, m)
}

// togetherAsAlone wants a row of one expert to have the same bits among any number of others.
func togetherAsAlone(t *testing.T, d *Device, m *model.Model) {
	t.Helper()
	in := rowsFor(m, mostTogether)
	for i := range in.Expert {
		in.Expert[i] = 0
	}
	all := computed(t, d, in, m)
	for n := 1; n < mostTogether; n += max(1, n/7) {
		sameBits(t, m, computed(t, d, only(in, mostTogether-n, mostTogether), m), all[(mostTogether-n)*m.Spec.Hidden:])
	}
}

// only is a call of some of the entries of another.
func only(in forward.Routed, from, to int) forward.Routed {
	in.Source, in.Expert, in.Weight = in.Source[from:to], in.Expert[from:to], in.Weight[from:to]
	return in
}

// With the real kernels whole models' logits are the CPU's.
func TestRealBackbone(t *testing.T) {
	for _, name := range quantised {
		t.Run(name+" in FP8", func(t *testing.T) { backboneAgrees(t, inFP8(t, name), realKernels(t), 20) })
	}
	t.Run("wide heads", func(t *testing.T) { backboneAgrees(t, wideHeads(t), realKernels(t), 20) })
	for _, name := range decoders {
		t.Run(name, func(t *testing.T) { backboneAgrees(t, modeltest.Golden(t, name), realKernels(t), 20) })
	}
	for _, name := range encoders {
		t.Run(name, func(t *testing.T) { encoderAgrees(t, modeltest.Golden(t, name), realKernels(t), 20, 5) })
	}
}

// And a sequence has the same bits in pieces, in tiles or splits, and beside others.
func TestRealBackboneInvariant(t *testing.T) {
	for parts := 1; parts <= 2; parts++ {
		backboneInvariant(t, modeltest.Golden(t, "mixtral-window"), realKernels(t), parts)
		backboneInvariant(t, wideHeads(t), realKernels(t), parts)
		backboneInvariant(t, modeltest.Golden(t, "deepseek_v3"), realKernels(t), parts)
		encoderInvariant(t, modeltest.Golden(t, "bert2bert_moe"), realKernels(t), parts)
	}
}

// And the same bits by graphs as by launches one by one, without writing where others do.
func TestRealGraphs(t *testing.T) {
	open := func() cuda.Driver { return realKernels(t) }
	graphsAgree(t, wideHeads(t), open, 2, 0)
	for _, name := range []string{"qwen2_moe", "gpt_oss", "deepseek_v3"} {
		graphsAgree(t, modeltest.Golden(t, name), open, 1, 0)
	}
}

// With the real kernels gates choose the CPU's experts with the CPU's weights.
func TestRealGates(t *testing.T) {
	for name, m := range gated(t) {
		t.Run(name, func(t *testing.T) { gatesAgree(t, m, gatesOn(t, m, realKernels(t))) })
	}
}
