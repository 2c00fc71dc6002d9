package replay

import (
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

// Latencies are what requests took: times to the first token, and between tokens, each the
// mean of an answer's. In milliseconds.
type Latencies struct {
	Requests int     `json:"requests"`
	TTFT     Figures `json:"ttft_ms"`
	TPOT     Figures `json:"tpot_ms"`
}

// Figures sum up a number of each request.
type Figures struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
}

func figures(values []float64) Figures {
	slices.Sort(values)
	return Figures{mean(values), quantile.Of(values, 0.5), quantile.Of(values, 0.99)}
}

// span is when a request was sent, its first and last tokens came, and how many they were.
type span struct {
	sent, first, last time.Duration
	tokens            int
}

// latencies are those of requests that have tokens.
func latencies(spans []span) Latencies {
	var first, between []float64
	for _, s := range spans {
		if s.tokens > 0 {
			first = append(first, milliseconds(s.first-s.sent))
		}
		if s.tokens > 1 {
			between = append(between, milliseconds(s.last-s.first)/float64(s.tokens-1))
		}
	}
	return Latencies{len(first), figures(first), figures(between)}
}

// Latencies are those that producers saw.
func (r *Result) Latencies() Latencies {
	spans := make([]span, len(r.Answers))
	for i, a := range r.Answers {
		if n := len(a.Times); n > 0 {
			spans[i] = span{a.Sent, a.Times[0], a.Times[n-1], len(a.Tokens)}
		}
	}
	return latencies(spans)
}

func milliseconds(d time.Duration) float64 { return 1e3 * d.Seconds() }
