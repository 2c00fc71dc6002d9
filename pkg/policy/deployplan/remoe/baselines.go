package remoe

import (
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// The paper's baselines (section V-C), each with the memory that makes it the cheapest.

// whole is a model that is one function: how it computes, and what memory it takes.
type whole struct {
	*serverless.System
	expert    func(rows float64) float64 // seconds of an expert
	other     func(rows int) float64     // seconds of a layer beside its experts
	gpu, host float64                    // bytes
}

// CPU serves a request with the whole model on processors; false where no memory holds it.
func CPU(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	need := s.GPUMemory(d.Prompt+d.Output) + s.All()
	return cheapest(s.Main, need, func(memory float64) serverless.Bill {
		device := s.Functions.Device(memory) // attention's heads and rows use all processors
		return whole{
			System: s, host: memory,
			expert: func(rows float64) float64 { return s.Compute(memory, rows) },
			other: func(rows int) float64 {
				return device.Seconds(cost.Access{Bytes: s.Fixed / float64(s.Layers), Rows: rows})
			},
		}.serve(d)
	})
}

// GPU serves a request with the whole model on the GPU, and no other memory.
func GPU(s *serverless.System, d *serverless.Demand) serverless.Bill {
	return onGPU(s, d, s.GPUMemory(d.Prompt+d.Output)+s.All(), 0)
}

// Fetch is what all ways to offload experts could be at best: the GPU's time without a miss, all
// experts in the host's memory, and those of a token on the GPU too. It is false where no memory
// holds the experts.
func Fetch(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	tokens := d.Prompt + d.Output
	gpu := s.GPUMemory(tokens) + float64(s.Layers*s.TopK)*s.Expert
	return cheapest(s.Main, s.All()+s.Token*float64(tokens), func(memory float64) serverless.Bill { return onGPU(s, d, gpu, memory) })
}

// Mix has all experts on the host, and all else on the GPU: a plan without functions.
func Mix(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	p := uniform(s, 0, s.Sizes()[0], 1)
	return cheapest(s.Main, s.MainMemory(p.Layers, d.Prompt+d.Output), func(memory float64) serverless.Bill {
		p.Main = memory
		return s.Serve(p, d, 0)
	})
}

// cheapest is the least bill of the sizes that hold so much.
func cheapest(sizes []float64, need float64, serve func(memory float64) serverless.Bill) (best serverless.Bill, fits bool) {
	for _, memory := range sizes {
		if memory < need {
			continue
		}
		if b := serve(memory); !fits || b.Cost() < best.Cost() {
			best, fits = b, true
		}
	}
	return best, fits
}

func onGPU(s *serverless.System, d *serverless.Demand, gpu, host float64) serverless.Bill {
	return whole{
		System: s, gpu: gpu, host: host, other: s.NonExpert,
		expert: func(rows float64) float64 {
			if rows <= 0 {
				return 0
			}
			return s.GPU.Seconds(cost.Access{Bytes: s.Expert, Rows: int(max(1, rows))}) * min(1, rows)
		},
	}.serve(d)
}

// serve is the bill of a request.
func (w whole) serve(d *serverless.Demand) serverless.Bill {
	b := serverless.Bill{Output: d.Output}
	for l := range d.Layers {
		b.Prefill += w.other(d.Prompt)
		for _, n := range d.Layers[l].Prefill {
			b.Prefill += w.expert(n)
		}
	}
	b.Decode = float64(d.Output*w.Layers) * (w.other(1) + float64(w.TopK)*w.expert(1))
	gpu := w.Functions.Prices
	gpu.Memory = w.GPUPrice
	second := gpu.Run(w.gpu, 1) + w.Functions.Run(w.host, 1)
	b.Main = b.Seconds() * second
	b.Cold = w.Functions.Cold(w.Fixed + w.All())
	b.Starting = b.Cold * second
	b.GPUGBs, b.HostGBs = meter.Invocation(b.Seconds(), w.gpu, 1), meter.Invocation(b.Seconds(), w.host, 1)
	return b
}
