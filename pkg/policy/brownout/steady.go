package brownout

const (
	// Calm keeps what the controller does under a constant load to a rise in two minutes.
	Calm = 120
	// tellsIn is within how many seconds a step that is done has been told of.
	tellsIn = 0.5
)

// Steady is algorithm 2 made steady. A threshold that was too high is remembered for two minutes: none is tried
// that it says is too high as well. And the threshold falls as soon as all that is judged is of steps behind the last change,
// and not every five seconds, so that three cuts take five seconds in place of ten.
func Steady(slo float64) Rule {
	r := Paper(slo)
	r.Calm, r.Cuts = Calm, r.Window+tellsIn
	return r
}

// tooHigh is a threshold at which steps missed the SLO.
type tooHigh struct {
	threshold int
	latency   float64 // of steps there
	until     float64 // when that is forgotten
	// below is the latency of lower thresholds: that by which the threshold rose to this one, if it did (rose), else
	// the first one behind the cut; 0: it is not known yet.
	below float64
	rose  bool
}

// missed is the threshold as one that is too high.
func (c *Controller) missed(now, latency float64) tooHigh {
	h := tooHigh{threshold: c.threshold, latency: latency, until: now + c.rule.Calm, below: c.rose, rose: c.rose > 0}
	c.rose = 0
	return h
}

// judge hears the latency of a threshold below it.
func (h *tooHigh) judge(latency float64) {
	if h.below == 0 {
		h.below = latency
	}
}

// nearby is the share of a latency from which on another one is like it.
const nearby = 0.9

// holds says whether the threshold does not rise although latencies are below the warning line: it had to be taken back
// from there, or would have to be, as it is the nearer to the one that was too high. It rises when latencies are a tenth lower
// than they were.
func (c *Controller) holds(now, latency float64) bool {
	h := &c.high
	if now >= h.until || c.threshold >= h.threshold {
		return false
	}
	if latency <= nearby*h.below {
		if !h.rose {
			*h = tooHigh{}
		}
		return false
	}
	part := float64(min(c.rule.Increment, h.threshold-c.threshold)) / float64(h.threshold-c.threshold)
	return h.rose || latency+part*(h.latency-latency) > c.rule.SLO
}
