package scale

import "fmt"

// MoEless is algorithm 1: while the replicas' loads vary by more than the
// threshold, the straggler gets one replica more and its load is divided anew.
//
// Line 3 tests M_alloc < M_cap before a replica is added, which lets the last
// one exceed the cap; here one is added only if it fits. Where the straggler
// gets no more, the others get none either: a layer lasts as long as its
// straggler (§3.3, the maximum of T(l,e,r)), so their replicas would cost
// memory and save no time.
func MoEless(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	before, why := l.cv(), ""
	for l.uneven() {
		if why = l.full(); why != "" {
			break
		}
		l.add()
	}
	return l.decision(l.explain(before, why))
}

func (l *layer) explain(before float64, why string) string {
	now := l.cv()
	text := fmt.Sprintf("CV %.4g is within the threshold %.4g", before, l.CV)
	if n := l.count - len(l.experts); n > 0 {
		text = fmt.Sprintf("%d replicas added: CV from %.4g to %.4g, threshold %.4g", n, before, now, l.CV)
	} else if now > l.CV {
		text = fmt.Sprintf("no replica added: CV %.4g, threshold %.4g", now, l.CV)
	}
	if why != "" {
		text += "; " + why
	}
	return text
}
