package elastic

import "math"

// window counts rows by expert, those of long ago less and less. Where seconds is
// infinite, all rows since its beginning count alike.
type window struct {
	seconds float64
	rows    []float64 // each times e^((when−base)/seconds)
	base    float64
	began   float64
	last    float64 // of the newest rows
	any     bool
}

func newWindow(experts int, seconds float64) *window {
	return &window{seconds: seconds, rows: make([]float64, experts)}
}

// maxExponent is when weights are scaled down anew.
const maxExponent = 50

// advance makes room for rows of now.
func (w *window) advance(now float64) {
	if !w.any {
		w.any, w.began, w.base = true, now, now
	}
	w.last = now
	if x := (now - w.base) / w.seconds; x > maxExponent {
		for e := range w.rows {
			w.rows[e] *= math.Exp(-x)
		}
		w.base = now
	}
}

// weight is what a row of now counts; advance comes before.
func (w *window) weight(now float64) float64 { return math.Exp((now - w.base) / w.seconds) }

// addAll takes a step's rows in.
func (w *window) addAll(now float64, experts, counts []uint32) {
	w.advance(now)
	weight := w.weight(now)
	for i, e := range experts {
		w.rows[e] += float64(counts[i]) * weight
	}
}

// leastSpan bounds rates that are of hardly any time.
const leastSpan = 0.25

// rates are the rows of each expert in a second, nil if there never were any.
func (w *window) rates(now float64) []float64 {
	if !w.any {
		return nil
	}
	passed := max(leastSpan, now-w.began)
	if !math.IsInf(w.seconds, 1) {
		passed = w.seconds * -math.Expm1(-passed/w.seconds)
	}
	factor := math.Exp(-(now-w.base)/w.seconds) / passed
	rates := make([]float64, len(w.rows))
	for e, n := range w.rows {
		rates[e] = n * factor
	}
	return rates
}

// since is how long ago there were rows.
func (w *window) since(now float64) float64 {
	if !w.any {
		return math.Inf(1)
	}
	return now - w.last
}

// mean is what something takes, by the newest measurements most.
type mean struct{ sum, weight float64 }

// forget is what a measurement still weighs after another one of weight 1.
const forget = 0.9

func (m *mean) add(seconds float64) { m.sum, m.weight = m.sum*forget+seconds, m.weight*forget+1 }

// or is the mean, or what is assumed as long as nothing was measured.
func (m mean) or(assumed float64) float64 {
	if m.weight == 0 {
		return assumed
	}
	return m.sum / m.weight
}
