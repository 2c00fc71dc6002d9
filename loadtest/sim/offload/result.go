package offload

// Phase is what came of prefills, or of decode steps.
type Phase struct {
	Steps   int
	Seconds float64
	// Hits, Late and Misses are by step, layer and expert.
	Hits, Late, Misses int
	// Stall are the seconds that steps take beyond those without any waiting.
	Stall float64
	// Loads are how many began because rows waited, Fetches those that began ahead.
	Loads, Fetches int
	busy           []float64 // bytes that each link moved
}

// HitRate is the part of demands that were hits.
func (p *Phase) HitRate() float64 {
	if n := p.Hits + p.Late + p.Misses; n > 0 {
		return float64(p.Hits) / float64(n)
	}
	return 0
}

// LateRate is the part of demands whose loads were under way.
func (p *Phase) LateRate() float64 {
	return float64(p.Late) / float64(max(1, p.Hits+p.Late+p.Misses))
}

// Mean are the seconds of a step.
func (p *Phase) Mean() float64 {
	if p.Steps == 0 {
		return 0
	}
	return p.Seconds / float64(p.Steps)
}

// Result is what a run took.
type Result struct {
	Prefill, Decode Phase
	// Used, Overdue and Wasted are the bytes of prefetches: complete when they were demanded,
	// demanded on their way, or given up.
	Used, Overdue, Wasted float64
	// Dropped are hints for layers that were reached, Refused those for which nothing yields.
	Dropped, Refused int
	// Steps are each step's seconds.
	Steps []float64
}

// TTFT are the mean seconds of a prefill, TPOT those of a decode step.
func (r *Result) TTFT() float64 { return r.Prefill.Mean() }

// TPOT are the mean seconds of a decode step.
func (r *Result) TPOT() float64 { return r.Decode.Mean() }

// Request are the mean seconds from a prefill's beginning to the end of the decode steps behind it.
func (r *Result) Request() float64 {
	return (r.Prefill.Seconds + r.Decode.Seconds) / float64(max(1, r.Prefill.Steps))
}

// Floor is what a decode step takes at least of the busiest link, if it loads what this run
// loaded and nothing else takes time.
func (r *Result) Floor(bandwidth float64) float64 {
	most := 0.0
	for _, bytes := range r.Decode.busy {
		most = max(most, bytes)
	}
	return most / bandwidth / float64(max(1, r.Decode.Steps))
}

// Total are the bytes that all links moved.
func (p *Phase) Total() (bytes float64) {
	for _, b := range p.busy {
		bytes += b
	}
	return bytes
}
