package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/control/ledger"
)

// offloadRun reads a run's figures.
func offloadRun(r *replay.Result, all figures) *arena.OffloadRun {
	l := r.Latencies()
	of := func(name string, labels ...string) float64 { return all.sum("switchyard_"+name, labels...) }
	hits := func(phase string, states ...string) (sum float64) {
		for _, state := range states {
			sum += of("expert_accesses_total", "phase", phase, "state", state)
		}
		return sum / max(1, of("expert_accesses_total", "phase", phase))
	}
	o := &arena.OffloadRun{
		TTFT: l.TTFT.Mean, TPOT: l.TPOT.Mean, Hits: hits("decode", "hit"), Late: hits("decode", "late"), Prefill: hits("prefill", "hit"),
		Stall: of("expert_stall_seconds_total"), Hints: of("hints_sent_total"), Search: of("map_search_seconds"), LateShare: r.LateShare,
		Reissued: of("reissues_total"), Stages: offloadStages(r), Lag: map[string]float64{}, Lead: map[string]float64{},
		Used:    of("prefetched_bytes_total", "outcome", "used") / 1e9,
		Overdue: of("prefetched_bytes_total", "outcome", "late") / 1e9,
		Wasted:  of("prefetched_bytes_total", "outcome", "wasted") / 1e9,
	}
	o.Semantic, o.Trajectory = all.mean("map_search_seconds", "kind", "semantic"), all.mean("map_search_seconds", "kind", "trajectory")
	took, loads := all.observed("expert_load_seconds", "outcome", "warm")
	o.Load = (took - r.Stood) / float64(max(1, loads))
	for _, phase := range []string{"prefill", "decode"} {
		for name, of := range map[string]map[string]float64{"hint_lag_seconds": o.Lag, "hint_lead_seconds": o.Lead} {
			if seconds, n := all.observed(name, "phase", phase); n > 0 {
				of[phase] = seconds / float64(n)
			}
		}
	}
	if len(r.Steps) > 0 {
		o.Wait = o.Stages["decode"][ledger.ExpertStall.String()] * float64(len(r.Steps[0].Layers))
	}
	if n := len(r.Frames); n > 0 {
		o.Held = r.Frames[n-1].Held - r.Frames[0].Held
	}
	return o
}

// figures are a process's counters, and of histograms the sums of what was observed.
type figures []counted

type counted struct {
	name    string
	labels  map[string]string
	value   float64
	samples uint64 // of a histogram
}

func gathered(from *prometheus.Registry) (all figures, err error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			one := counted{f.GetName(), map[string]string{}, m.GetCounter().GetValue() + h.GetSampleSum(), h.GetSampleCount()}
			for _, l := range m.GetLabel() {
				one.labels[l.GetName()] = l.GetValue()
			}
			all = append(all, one)
		}
	}
	return all, nil
}

func (f figures) mean(name, label, value string) float64 {
	sum, samples := f.observed(name, label, value)
	return sum / float64(max(1, samples))
}

// observed is what a histogram has observed where a label has a value, all together, and how often.
func (f figures) observed(name, label, value string) (sum float64, samples uint64) {
	for _, one := range f {
		if one.name == "switchyard_"+name && one.labels[label] == value {
			sum, samples = sum+one.value, samples+one.samples
		}
	}
	return sum, samples
}

// sum is that of a metric over what has these labels, given by name and value in turns.
func (f figures) sum(name string, labels ...string) (sum float64) {
	for _, one := range f {
		has := one.name == name
		for i := 0; i+1 < len(labels); i += 2 {
			has = has && one.labels[labels[i]] == labels[i+1]
		}
		if has {
			sum += one.value
		}
	}
	return sum
}

// offloadStages are a mean layer's, of steps with several rows, which are prompts', and with one; own is
// what attention computes before it.
func offloadStages(r *replay.Result) map[string]map[string]float64 {
	all, layers := map[string]map[string]float64{"prefill": {}, "decode": {}}, map[string]float64{}
	for i := range r.Steps {
		phase := "decode"
		if r.Steps[i].Rows > 1 {
			phase = "prefill"
		}
		own := r.Steps[i].Took - r.Steps[i].Behind
		for _, l := range r.Steps[i].Layers {
			own -= l.Total
			layers[phase]++
			for stage, took := range l.By {
				all[phase][ledger.Stage(stage).String()] += took.Seconds() * 1e3
			}
			all[phase]["total"] += l.Total.Seconds() * 1e3
		}
		all[phase]["own"] += own.Seconds() * 1e3
	}
	for phase, of := range all {
		for stage := range of {
			of[stage] /= layers[phase]
		}
	}
	return all
}
