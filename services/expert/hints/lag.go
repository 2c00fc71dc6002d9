package hints

import "time"

// lag is for the layer that a step has reached: when its rows have come, or the hint that is made at their gate, which
// is foretold while the rows are on their way and computed. Before layer 0 it is the step's first hint.
type lag struct {
	rows time.Time // zero: they have not come, or both have
	hint time.Time // the same
	led  bool      // the lead of the step has been observed
}

// rowsCame is for a layer's rows, before the step has advanced to it.
func (f *Follower) rowsCame(fl *flow, layer int, phase string) {
	now := time.Now()
	switch {
	case layer > fl.at:
		led := fl.at < 0 && layer == 0 && !fl.lag.hint.IsZero()
		if led {
			f.Metrics.HintLead.WithLabelValues(phase).Observe(now.Sub(fl.lag.hint).Seconds())
		}
		fl.lag, fl.phase = lag{rows: now, led: led}, phase
	case layer == fl.at && !fl.lag.hint.IsZero():
		f.Metrics.HintLag.WithLabelValues(phase).Observe(0)
		fl.lag = lag{}
	}
}

// hintCame is for the hint that is made at a layer's gate, or before layer 0 (-1), before the step has advanced to it.
func (f *Follower) hintCame(fl *flow, layer int) {
	now := time.Now()
	switch {
	case layer > fl.at, layer < 0 && fl.at < 0 && fl.lag.hint.IsZero():
		fl.lag = lag{hint: now}
	case layer < 0 && fl.at == 0 && !fl.lag.rows.IsZero() && !fl.lag.led:
		f.Metrics.HintLead.WithLabelValues(fl.phase).Observe(0)
		fl.lag.led = true
	case layer == fl.at && !fl.lag.rows.IsZero():
		f.Metrics.HintLag.WithLabelValues(fl.phase).Observe(now.Sub(fl.lag.rows).Seconds())
		fl.lag = lag{}
	}
}
