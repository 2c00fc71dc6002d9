package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
)

// BenchmarkInstantGPU is what the host does beside GPUs that take no time: tokens a second of
// four layers of Qwen3-30B-A3B's shape by direct calls and by the pipeline, in one process.
func BenchmarkInstantGPU(b *testing.B) {
	const name = "qwen3-30b-a3b:4"
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as a process has it that holds little
	m, err := model.Synthetic(name, Seed)
	if err != nil {
		b.Fatal(err)
	}
	threads := pool.New(runtime.GOMAXPROCS(0))
	b.Cleanup(threads.Close)
	r := &rig{m: m, threads: threads}
	r.of.Attention.MaxRows = 256
	r.of.Expert.GPU, r.of.Attention.GPU, r.of.Gate.GPU = instantGPU(nil), instantGPU(nil), instantGPU(chosen(m.Spec.Experts, m.Spec.TopK))
	if r.devices, err = OpenDevices(b.Context(), m, threads, tensor.BF16, r.of, ContextFor(PromptLength)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.devices.Close)
	on, err := Open(b.Context(), Settings{
		Model: m, Pool: threads, Wire: "bf16", Hops: "unacked", Devices: r.devices, Rounds: 1, Seconds: 0.5,
		Progress: func(string, ...any) {}, Open: r.pipeline,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = on.Close() }) // its figures are told
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			var direct, pipeline float64
			for b.Loop() {
				got, err := on.Measure(b.Context(), batch)
				if err != nil {
					b.Fatal(err)
				}
				direct, pipeline = direct+got.Direct, pipeline+got.Pipeline
			}
			b.ReportMetric(direct/float64(b.N), "direct-tokens/s")
			b.ReportMetric(pipeline/float64(b.N), "pipeline-tokens/s")
		})
	}
}

func instantGPU(out func(to []byte)) *gpus.GPU {
	info := kernels.Info{Name: "instant GPU", Arch: kernels.Arch{Major: 9}, Memory: 200 << 30, Shared: 227 << 10, Processors: 132, Driver: 12090}
	return &gpus.GPU{
		Info: info, Memory: 100 << 30,
		Backend: cudabackend.Backend{Images: kernels.Images{"experts.sm_90a.cubin": {1}}, Driver: func() (kernels.Driver, error) {
			return &timelessGPU{About: info, Out: out}, nil
		}},
	}
}

// chosen is what a gate's copies bring back: k different experts for each row, spread over all,
// and behind them, in the next 16 bytes, their weights.
func chosen(experts, k int) func(to []byte) {
	return func(to []byte) {
		slots := len(to) / 8 / k * k
		for (4*slots+15)/16*16+4*slots > len(to) {
			slots -= k
		}
		weights := to[(4*slots+15)/16*16:]
		for i := range slots {
			binary.LittleEndian.PutUint32(to[4*i:], uint32(i*(experts/k+1)%experts))
			binary.LittleEndian.PutUint32(weights[4*i:], math.Float32bits(1/float32(k)))
		}
	}
}
