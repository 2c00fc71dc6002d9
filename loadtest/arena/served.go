package arena

import (
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// Served is what requests had of a policy; times are milliseconds, memory is gigabytes.
type Served struct {
	setting
	figures
	Requested
	Seed       uint64  `json:"seed"`
	Default    bool    `json:"default"` // the scaler decides by it, unless it is told otherwise
	Rate       float64 `json:"rate"`    // of requests, as a multiple of the trace's
	PerSecond  float64 `json:"requests_per_s"`
	Prefill    float64 `json:"prefill_layer_ms"`
	Decode     float64 `json:"decode_layer_ms"`
	Good       float64 `json:"good_share"`
	Strict     float64 `json:"good_share_half_slo"`
	Lax        float64 `json:"good_share_twice_slo"`
	Behind     float64 `json:"behind_s"`
	Unfinished int     `json:"unfinished"`
	Requests   int     `json:"requests"`
	Average    float64 `json:"memory_gb_mean"`
	Peak       float64 `json:"memory_gb_peak"`
	Elapsed    float64 `json:"elapsed_s"`
}

// figures are a line's but for its shape.
type figures struct {
	Policy     string  `json:"policy"`
	Mean       float64 `json:"layer_ms_mean"`
	P50        float64 `json:"layer_ms_p50"`
	P99        float64 `json:"layer_ms_p99"`
	Cost       float64 `json:"cost_gb_s"`
	Resident   float64 `json:"cost_resident_gb_s"`
	Replicas   float64 `json:"replicas_mean"`
	ColdStarts int     `json:"cold_starts"`
	Tokens     int     `json:"tokens"`
	Device     string  `json:"device"`
}

func figuresOf(l sim.Line) figures {
	return figures{l.Policy, l.Mean, l.P50, l.P99, l.Cost, l.Resident, l.Replicas, l.ColdStarts, l.Tokens, l.Device}
}

// Requested are times of requests, in milliseconds, and how many a second keep the SLO.
type Requested struct {
	TTFTMean float64 `json:"ttft_ms_mean"`
	TTFTP50  float64 `json:"ttft_ms_p50"`
	TTFTP99  float64 `json:"ttft_ms_p99"`
	TPOTMean float64 `json:"tpot_ms_mean"`
	TPOTP50  float64 `json:"tpot_ms_p50"`
	TPOTP99  float64 `json:"tpot_ms_p99"`
	Goodput  float64 `json:"goodput_rps"`
}

func servedOf(at setting, rate float64, seed uint64, r *requests.Result) Served {
	return Served{
		setting: at, figures: figuresOf(r.Line(at.Shape, Simulator{}.Device())), Requested: requestedOf(r), Seed: seed, Default: r.Policy == registry.Default,
		Rate: rate, PerSecond: float64(r.Requests) / r.Elapsed, Prefill: r.Prefill * 1e3, Decode: r.Decode * 1e3,
		Good: r.Good, Strict: r.Strict, Lax: r.Lax, Behind: r.Behind, Unfinished: r.Unfinished, Requests: r.Requests,
		Average: r.Average, Peak: r.Peak, Elapsed: r.Elapsed,
	}
}

func requestedOf(r *requests.Result) Requested {
	return Requested{
		r.TTFT.Mean * 1e3, r.TTFT.P50 * 1e3, r.TTFT.P99 * 1e3,
		r.TPOT.Mean * 1e3, r.TPOT.P50 * 1e3, r.TPOT.P99 * 1e3, r.Goodput,
	}
}
