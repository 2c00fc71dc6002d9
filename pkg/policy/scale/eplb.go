package scale

import "fmt"

// EPLB is DeepSeek's Expert Parallelism Load Balancer
// (github.com/deepseek-ai/EPLB), by its public description: a fixed number of
// slots, here what the memory cap holds, is filled one after the other with a
// replica of the expert with the largest load by replicas. It knows no
// threshold: it fills all slots even of a layer in balance. This is its global
// variant, which packs no groups of experts onto nodes.
func EPLB(experts []Expert, s Settings) Decision {
	l, before := newLayer(experts, s), Static(experts, s).CV
	l.fill(func(int) bool { return true })
	return l.decision(fmt.Sprintf("%d replicas added by load, all slots of %d bytes on 1 nodes: CV from %.4g to %.4g",
		l.count-len(experts), s.MemoryCap, before, l.cv()))
}
