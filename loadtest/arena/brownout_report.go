package arena

import (
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim/bursts"
)

// BrownoutLine is one run.
type BrownoutLine struct {
	Suite      string  `json:"suite"`
	Experiment string  `json:"experiment"` // throughput or burst
	Shape      string  `json:"shape"`
	Device     string  `json:"device"`
	Engine     string  `json:"engine"`
	Load       string  `json:"traffic"`
	Arrivals   string  `json:"arrivals"`
	Regime     string  `json:"regime,omitempty"`
	Policy     string  `json:"policy"`
	Way        int     `json:"way"`
	Threshold  float64 `json:"threshold"`
	Seed       uint64  `json:"seed"`
	Rate       float64 `json:"rate_rps"` // before the burst

	Throughput float64 `json:"throughput_tokens_per_s"`
	// Ratio is the throughput by that without brownout, Predicted what eq. 2 says of it.
	Ratio     float64 `json:"throughput_ratio"`
	Predicted float64 `json:"throughput_ratio_predicted"`
	MoEShare  float64 `json:"moe_share_ratio"` // of all steps' time
	Accesses  float64 `json:"accesses_ratio"`
	United    float64 `json:"united_ratio"` // of routed rows: degraded

	SLOPrefill float64 `json:"slo_prefill_ms"`
	SLODecode  float64 `json:"slo_decode_ms"`
	// Misses of prompts and of tokens in steps, of tokens as producers see them, and of the burst's
	// seconds by the P90 of their steps.
	MissPrefill        float64 `json:"slo_miss_prefill_ratio"`
	MissDecode         float64 `json:"slo_miss_decode_ratio"`
	MissDecodeSteps    float64 `json:"slo_miss_decode_steps_ratio"`
	MissPrefillSeconds float64 `json:"slo_miss_prefill_seconds_ratio"`
	MissDecodeSeconds  float64 `json:"slo_miss_decode_seconds_ratio"`
	Deviation          float64 `json:"decode_p90_deviation_ms"`
	ThresholdPrefill   float64 `json:"threshold_prefill_mean"`
	ThresholdDecode    float64 `json:"threshold_decode_mean"`
	// Settled is when the first ten seconds begin, behind the burst's beginning, in which decode keeps
	// its SLO, Reversals how often a minute its threshold turns from 30 s behind it on.
	Settled   float64 `json:"settled_seconds"`
	Reversals float64 `json:"reversals_per_minute"`
	// Back is when both thresholds are 1 until the burst ends, behind the second replica; -1: there is none.
	Back     float64 `json:"back_seconds"`
	TTFT50   float64 `json:"ttft_ms_p50"`
	TTFT99   float64 `json:"ttft_ms_p99"`
	TPOT50   float64 `json:"tpot_ms_p50"`
	TPOT99   float64 `json:"tpot_ms_p99"`
	Refused  int     `json:"refused"`
	Requests int     `json:"requests"`

	Trace   []bursts.Second `json:"-"`
	Changes []bursts.Change `json:"-"`
}

// BrownoutLengths are the tokens of a traffic's requests: the tenth, the half and nine tenths.
type BrownoutLengths struct {
	Load       string    `json:"traffic"`
	Prompt     []float64 `json:"prompt_tokens"`
	Answer     []float64 `json:"answer_tokens"`
	MeanPrompt float64   `json:"prompt_tokens_mean"`
	MeanAnswer float64   `json:"answer_tokens_mean"`

	prompts, answers []float64
}

// BrownoutReport is all that the suite has run.
type BrownoutReport struct {
	Trace   string            `json:"trace"`
	Seed    uint64            `json:"seed"`
	Lengths []BrownoutLengths `json:"lengths"`
	Lines   []BrownoutLine    `json:"lines"`
}

// burstLine tells a run; misses are of the time from a begin to an end.
func burstLine(r *bursts.Result, slo [2]float64, from, to float64) BrownoutLine {
	l := BrownoutLine{
		Suite: "brownout", Shape: qwenName, Device: "simulated, 4 A100-PCIE-40GB", SLOPrefill: 1e3 * slo[0], SLODecode: 1e3 * slo[1],
		Throughput: float64(r.Tokens) / max(r.Elapsed, 1e-9), Refused: r.Refused, Requests: r.Requests,
	}
	l.MoEShare = part(r.Experts[0]+r.Experts[1], r.Took[0]+r.Took[1])
	l.Accesses, l.United = part(float64(r.After), float64(r.Before)), part(float64(r.Routed-r.Kept), float64(r.Routed))
	l.MissPrefill, l.MissDecodeSteps = part(float64(r.Missed[0]), float64(r.Steps[0])), part(float64(r.Missed[1]), float64(r.Steps[1]))
	l.MissDecode = part(float64(r.Late), float64(r.Gaps))
	l.MissPrefillSeconds, l.ThresholdPrefill, _ = r.MissedSeconds(bursts.Prefill, from, to, slo[0])
	var deviation float64
	l.MissDecodeSeconds, l.ThresholdDecode, deviation = r.MissedSeconds(bursts.Decode, from, to, slo[1])
	l.Deviation, l.Settled = 1e3*deviation, r.Settled(bursts.Decode, from, to, slo[1])
	if l.Back = -1; r.Scaled > 0 && r.Scaled < to {
		l.Back = r.Back(r.Scaled, to)
	}
	const settling = 30
	if to > from+settling {
		l.Reversals = 60 * float64(r.Reversals(bursts.Decode, from+settling, to)) / (to - from - settling)
	}
	l.TTFT50, l.TTFT99 = 1e3*bursts.Quantile(r.TTFT, 0.5), 1e3*bursts.Quantile(r.TTFT, 0.99)
	l.TPOT50, l.TPOT99 = 1e3*bursts.Quantile(r.TPOT, 0.5), 1e3*bursts.Quantile(r.TPOT, 0.99)
	l.Trace, l.Changes = r.Trace, r.Changes
	return l
}

func part(of, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return of / whole
}

// compare sets throughputs beside those without brownout, and beside what eq. 2 predicts: by the
// share of experts without, and by how many accesses are left.
func (r *BrownoutReport) compare() {
	base := map[string]*BrownoutLine{}
	key := func(l *BrownoutLine) string {
		return fmt.Sprint(l.Experiment, l.Engine, l.Load, l.Arrivals, l.Regime, l.Rate, l.Seed)
	}
	for i := range r.Lines {
		if l := &r.Lines[i]; l.Policy == "none" {
			base[key(l)] = l
		}
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		if b := base[key(l)]; b != nil {
			l.Ratio = part(l.Throughput, b.Throughput)
			l.Predicted = 1 / (1 - b.MoEShare + b.MoEShare*l.Accesses)
		}
	}
}

// String is the line for people.
func (l BrownoutLine) String() string {
	if l.Experiment == "throughput" {
		return fmt.Sprintf("%-8s %-8s %-7s %5.2f requests/s %-11s %7.1f tokens/s, %.3f times (eq. 2: %.3f); %.2f of the accesses, %.2f of the rows degraded\n",
			l.Engine, l.Load, l.Arrivals, l.Rate, l.Policy, l.Throughput, l.Ratio, l.Predicted, l.Accesses, l.United)
	}
	back := ""
	if l.Back >= 0 {
		back = fmt.Sprintf(", at 1 %.0f s behind the second replica", l.Back)
	}
	return fmt.Sprintf("%-8s %-8s %-5s seed %d %-11s misses: prefill %5.1f %% of seconds, decode %5.1f %% (%5.1f %% of tokens); thresholds %.3f, %.3f; σ %4.1f ms; settled in %3.0f s, %.1f reversals a minute; %.2f degraded, %d refused%s\n",
		l.Engine, l.Load, l.Regime, l.Seed, l.Policy, 100*l.MissPrefillSeconds, 100*l.MissDecodeSeconds, 100*l.MissDecode, l.ThresholdPrefill, l.ThresholdDecode,
		l.Deviation, l.Settled, l.Reversals, l.United, l.Refused, back)
}

// Write writes the report into a folder, which is made: report.json, lines.csv, and traces.csv with
// the P90s and thresholds of each second of a burst.
func (r *BrownoutReport) Write(folder string) error {
	return writeFiles(folder, []file{{"report.json", asJSON(r)}, {"lines.csv", asCSV(r.Lines)}, {"traces.csv", table(r.traceRows()).write}})
}

func (r *BrownoutReport) traceRows() [][]string {
	rows := [][]string{{"engine", "traffic", "regime", "seed", "policy", "second", "prefill_p90_ms", "decode_p90_ms", "threshold_prefill", "threshold_decode"}}
	for _, l := range r.Lines {
		if l.Experiment != "burst" {
			continue
		}
		for i, s := range l.Trace {
			rows = append(rows, []string{
				l.Engine, l.Load, l.Regime, fmt.Sprint(l.Seed), l.Policy, fmt.Sprint(i),
				number(1e3 * s.P90[0]), number(1e3 * s.P90[1]), number(s.Thresholds[0]), number(s.Thresholds[1]),
			})
		}
	}
	return rows
}
