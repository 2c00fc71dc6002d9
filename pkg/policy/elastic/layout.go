package elastic

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The wants.
const (
	warm = pb.Want_WANT_WARM
	kept = pb.Want_WANT_KEPT
	cold = pb.Want_WANT_COLD
)

// spot is what is wanted of a host for an expert.
type spot struct {
	host int
	want pb.Want
}

// layout is where a layer's experts are, each by its hosts.
type layout [][]spot

// read takes experts' hosts from the plan in force. Left out, and counted, are
// functions on hosts that are gone, and those that their hosts have refused.
func (r *round) read(in *plan.Layer) (l layout, gone, refused int) {
	l = make(layout, r.c.model.Experts)
	if in == nil {
		return l, 0, 0
	}
	for _, f := range in.Functions {
		for _, p := range f.Placements {
			h, here := r.index[p.Host]
			_, no := r.refused[refusal{p.Host, f.Id}]
			switch {
			case !here && p.Want != kept:
				gone++
			case here && no:
				refused++
			case here:
				if f.Kind != plan.Routed {
					continue // whoever plans by load moves routed experts alone
				}
				for _, e := range f.Experts {
					l.put(int(e), h, p.Want)
				}
			}
		}
	}
	return l, gone, refused
}

// rank orders wants where an expert is on a host by several functions.
func rank(w pb.Want) int {
	switch w {
	case warm:
		return 2
	case cold:
		return 1
	}
	return 0
}

// put wants an expert on a host, or more of it.
func (l layout) put(expert, host int, want pb.Want) {
	i, found := slices.BinarySearchFunc(l[expert], host, func(s spot, h int) int { return s.host - h })
	if !found {
		l[expert] = slices.Insert(l[expert], i, spot{host, want})
	} else if rank(want) > rank(l[expert][i].want) {
		l[expert][i].want = want
	}
}

// on is what is wanted of a host for an expert; 0 is nothing.
func (l layout) on(expert, host int) pb.Want {
	i, found := slices.BinarySearchFunc(l[expert], host, func(s spot, h int) int { return s.host - h })
	if !found {
		return 0
	}
	return l[expert][i].want
}

// having are the hosts of an expert of which something is wanted.
func (l layout) having(expert int, want pb.Want) (hosts []int) {
	for _, s := range l[expert] {
		if s.want == want {
			hosts = append(hosts, s.host)
		}
	}
	return hosts
}

func (l layout) count(expert int, want pb.Want) (n int) {
	for _, s := range l[expert] {
		if s.want == want {
			n++
		}
	}
	return n
}

func (l layout) set(expert int, want pb.Want, hosts ...int) {
	l[expert] = make([]spot, len(hosts))
	for i, h := range hosts {
		l[expert][i] = spot{h, want}
	}
}

func (l layout) clone() layout {
	c := make(layout, len(l))
	for e := range l {
		c[e] = slices.Clone(l[e])
	}
	return c
}

// use enters, or with -1 takes back, the slots that a layout needs.
func (f *fleet) use(l layout, times int) {
	for _, spots := range l {
		for _, s := range spots {
			if s.want == kept {
				f.hosts[s.host].kept += times
			} else {
				f.hosts[s.host].used += times
			}
		}
	}
}

// functions are the plan's form of a layout.
func (r *round) functions(number int, l layout) []*pb.Function {
	wanted := make([][]*pb.Placement, len(l))
	for e, spots := range l {
		for _, s := range spots {
			wanted[e] = append(wanted[e], &pb.Placement{Host: r.hosts[s.host].id, Want: s.want})
		}
	}
	return plan.Group(number, r.k.Settings.Grouping, wanted)
}

// hostLoads are the rows of each host in a second, when an expert's are divided
// among its replicas.
func (r *round) hostLoads(l layout, loads []float64) []float64 {
	sums := make([]float64, len(r.hosts))
	for e, load := range loads {
		n := float64(max(1, l.count(e, warm)))
		for _, s := range l[e] {
			if s.want == warm {
				sums[s.host] += load / n
			}
		}
	}
	return sums
}

// spread deals a layer's replicas out evenly when there are no rows to disturb
// and a host has come that has nothing.
func (r *round) spread(w *work) {
	if !slices.ContainsFunc(r.hosts, func(h host) bool { return h.idle && h.slots > 0 && !h.full }) {
		return
	}
	even := make([]float64, len(w.next))
	for e := range even {
		even[e] = 1
	}
	p := r.placed(w, w.want, even, false)
	if p == nil {
		p = w.next
	}
	if p = r.spreadCold(w, p); !equal(w.next, p) {
		r.adopt(w, p)
		w.why.count(bySpread, 1)
	}
}

// spreadCold gives hosts with fewest of a layer's cold experts some of those with most: else
// the one host that was there when the experts went to zero would load all of them when rows
// come. In a large fleet functions stay whole, and where they are.
func (r *round) spreadCold(w *work, l layout) layout {
	if w.window != nil {
		return l
	}
	l = l.clone()
	slots, colds := r.freeSlots(nil), make([]int, len(r.hosts))
	for e := range l {
		for _, s := range w.next[e] {
			slots[s.host]++
		}
		for _, s := range l[e] {
			slots[s.host]--
			if s.want == cold {
				colds[s.host]++
			}
		}
	}
	for e := range l {
		if l.count(e, warm) > 0 || l.count(e, cold) == 0 {
			continue
		}
		from := l.having(e, cold)[0]
		to := fewest(colds, slots)
		if to < 0 || colds[from]-colds[to] < 2 {
			continue
		}
		l.set(e, cold, to)
		colds[from], colds[to] = colds[from]-1, colds[to]+1
		slots[from], slots[to] = slots[from]+1, slots[to]-1
	}
	return l
}

// fewest is the host with fewest that has a slot; -1 if none has.
func fewest(colds, slots []int) int {
	best := -1
	for h, n := range colds {
		if slots[h] > 0 && (best < 0 || n < colds[best]) {
			best = h
		}
	}
	return best
}
