package sim

// Line is what a policy took, simulated or live, as outsiders read it; times are
// milliseconds.
type Line struct {
	Shape      string  `json:"shape"`
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

// Line sums a run of a model's shape up.
func (r *Result) Line(shape, device string) Line {
	return Line{
		Shape: shape, Policy: r.Policy, Device: device, Mean: r.Mean() * 1e3, P50: r.Quantile(0.5) * 1e3, P99: r.Quantile(0.99) * 1e3,
		Cost: r.Cost, Resident: r.Resident, Replicas: r.Replicas(), ColdStarts: r.ColdStarts, Tokens: r.Tokens,
	}
}
