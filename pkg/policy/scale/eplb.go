package scale

import (
	"cmp"
	"fmt"
	"slices"
)

// EPLB is DeepSeek's Expert Parallelism Load Balancer
// (github.com/deepseek-ai/EPLB), by its public description: a fixed number of
// slots, here what the memory cap holds, is filled one after the other with a
// replica of the expert with the largest load by replicas. It knows no
// threshold: it fills all slots even of a layer in balance.
//
// There are two variants. Where Groups, of experts that follow each other, can
// be shared evenly among Nodes, it is the hierarchical one: groups are packed
// onto nodes, heaviest first, the same number on each, and each node fills its
// share of the slots with replicas of its own experts. Else it is the global
// one, which is the same with one node.
func EPLB(experts []Expert, s Settings) Decision {
	experts = byID(experts)
	nodes := s.nodes(len(experts))
	nodeOf := make([]int, len(experts))
	if nodes > 1 {
		nodeOf = packGroups(experts, s.Groups, nodes)
	}
	all, before := newLayer(experts, s), Static(experts, s).CV
	for node := range nodes {
		fillNode(all, nodeOf, node, s.MemoryCap/uint64(nodes))
	}
	d := all.decision(fmt.Sprintf("%d replicas added by load, all slots of %d bytes on %d nodes: CV from %.4g to %.4g",
		all.count-len(experts), s.MemoryCap, nodes, before, all.cv()))
	for i, node := range nodeOf {
		d.Experts[i].Node = node
	}
	return d
}

// nodes is how many nodes slots are shared among: 1 where the groups cannot be
// shared evenly.
func (s Settings) nodes(experts int) int {
	if s.Nodes < 2 || s.Groups < 1 || s.Groups%s.Nodes != 0 || experts%s.Groups != 0 {
		return 1
	}
	return s.Nodes
}

// fillNode fills a node's slots with replicas of its experts.
func fillNode(all *layer, nodeOf []int, node int, memory uint64) {
	var own []Expert
	var at []int
	for i, e := range all.experts {
		if nodeOf[i] == node {
			own, at = append(own, e), append(at, i)
		}
	}
	s := all.Settings
	s.MemoryCap = memory
	l := newLayer(own, s)
	l.fill(func(int) bool { return true })
	for i, e := range at {
		all.replicas[e], all.each[e] = l.replicas[i], l.each[i]
	}
	all.count += l.count - len(own)
	all.added += l.added
}

// packGroups packs groups onto nodes, heaviest first, the lightest node that
// has room for one more first. It returns the node of each expert.
func packGroups(experts []Expert, groups, nodes int) []int {
	size := len(experts) / groups
	load := make([]float64, groups)
	for i, e := range experts {
		load[i/size] += e.Load
	}
	order := make([]int, groups)
	for g := range order {
		order[g] = g
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[b], load[a]) })
	of, sum, count := make([]int, groups), make([]float64, nodes), make([]int, nodes)
	for _, g := range order {
		n := lightest(sum, count, groups/nodes)
		of[g] = n
		sum[n] += load[g]
		count[n]++
	}
	nodeOf := make([]int, len(experts))
	for i := range nodeOf {
		nodeOf[i] = of[i/size]
	}
	return nodeOf
}

// lightest is the node with the least load of those with fewer than most groups.
func lightest(sum []float64, count []int, most int) int {
	best := -1
	for n := range sum {
		if count[n] < most && (best < 0 || sum[n] < sum[best]) {
			best = n
		}
	}
	return best
}
