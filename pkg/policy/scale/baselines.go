package scale

import (
	"fmt"
	"math"
)

// Static is expert parallelism without balancing (§6.1, Megatron-LM): one
// replica of every expert, whatever its load.
func Static(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	return l.decision(fmt.Sprintf("one replica of each expert, whatever its load; CV %.4g", l.cv()))
}

// Reactive gives each expert as many replicas as its load has means of the
// layer, rounded up: what an autoscaler does that compares a load with its
// target (Kubernetes' HPA, ceil(replicas · load / target)), the target being a
// layer in balance with one replica each. It has no threshold. Under the
// memory cap, stragglers go first.
func Reactive(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	mean, before := l.total/float64(len(l.experts)), l.cv()
	l.fill(func(e int) bool {
		// Less a little, so that rounding makes no replica of equal loads.
		return float64(l.replicas[e]) < math.Ceil(l.experts[e].Load/mean-1e-9)
	})
	return l.decision(fmt.Sprintf("%d replicas added in proportion to loads, %.4g rows the mean: CV from %.4g to %.4g",
		l.count-len(l.experts), mean, before, l.cv()))
}

// Oracle is the lower bound of §6.1: the layer in perfect balance, with one
// replica each. It is no decision that can be carried out, for it sets aside
// which experts the gate chose, and with that the model's answer.
func Oracle(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	mean := l.total / float64(len(l.experts))
	for i := range l.each {
		l.each[i] = mean
	}
	return l.decision(fmt.Sprintf("every expert is given the mean, %.4g rows, against the gate's choice", mean))
}
