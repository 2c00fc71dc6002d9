package arena

import "github.com/switchyard/switchyard/loadtest/sim/offload"

// What the simulator of a pipeline is told of it: what is spent around the devices, as steps' ledgers
// have it, and beside loads' transfers, as hosts have timed them: of each policy's own runs, since a predictor takes
// processors from all else. What steps wait for experts, it has to find itself.

// measured is that, in the mean of runs.
func (p *OffloadPipeline) measured(runs []*OffloadRun, budget float64) (b offload.Beside, err error) {
	held, err := offload.Find(offload.Held)
	if err != nil {
		return b, err
	}
	alone, err := p.Simulate(held, budget, b, offload.DefaultDelays())
	if err != nil {
		return b, err
	}
	layers := float64(p.Layers)
	for _, r := range runs {
		prefill := around(r.Stages["prefill"], r.TTFT, alone.TTFT()*1e3/layers, layers)
		decode := around(r.Stages["decode"], r.TPOT, alone.TPOT()*1e3/layers, layers)
		b.Prefill, b.Decode = plus(b.Prefill, prefill, len(runs)), plus(b.Decode, decode, len(runs))
		hinted(&b.Prefill, r, "prefill")
		hinted(&b.Decode, r, "decode")
		if r.Load > 0 {
			b.Load += max(0, r.Load-p.Profile.Link().Seconds(p.Model.ExpertBytes)) / float64(len(runs))
		}
	}
	return b, nil
}

// hinted adds what a run has of hints' times, if it has some.
func hinted(a *offload.Around, r *OffloadRun, phase string) {
	if seconds, ok := r.Lag[phase]; ok {
		a.Lag = a.Lag.With(seconds)
	}
	if seconds, ok := r.Lead[phase]; ok {
		a.Lead = a.Lead.With(seconds)
	}
}

// around is of one run: the mean of a layer's stages, in milliseconds, of what a step took as its
// client sees it. Of the four hops of a layer's rows two are before hosts have them.
func around(of map[string]float64, step, computing, layers float64) offload.Around {
	hops := of["messages"] / 2
	a := offload.Around{
		Step:   step - layers*(of[stageOwn]+of[stageTotal]),
		Before: of[stageOwn] + of["gate_queue"] + of["gate_compute"] + of["expert_queue"] + hops,
		Hops:   hops,
		Held:   of["expert_compute"] + of["expert_transfer"] - computing,
		After:  of["aggregator_wait"] + hops,
	}
	for _, v := range []*float64{&a.Step, &a.Before, &a.Hops, &a.Held, &a.After} {
		*v = max(0, *v) / 1e3
	}
	return a
}

// Beside the stages of a layer, OffloadRun.Stages has these of it: all of them together, and what
// attention computes before it.
const (
	stageTotal = "total"
	stageOwn   = "own"
)

// plus adds one of so many to a mean; of hints' times it keeps a's.
func plus(a, b offload.Around, of int) offload.Around {
	n := float64(of)
	return offload.Around{Step: a.Step + b.Step/n, Before: a.Before + b.Before/n, Hops: a.Hops + b.Hops/n, Held: a.Held + b.Held/n, After: a.After + b.After/n, Lag: a.Lag, Lead: a.Lead}
}
