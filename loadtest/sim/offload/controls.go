package offload

// streamed fetches all experts of the next layer.
type streamed struct{ w *Workload }

func (s streamed) Begin(int) {}

func (s streamed) Look(layer int, give func(Look)) {
	if layer+1 >= s.w.Layers {
		return
	}
	look := Look{Target: layer + 1, Told: make([]float32, s.w.Experts)}
	for e := range look.Told {
		look.Told[e] = 1
		look.Fetch = append(look.Fetch, Hint{e, 1})
	}
	give(look)
}

// previous takes the map of the sequence's row before for the one that comes.
type previous struct {
	w        *Workload
	step     int
	distance int
}

func (p *previous) Begin(step int) { p.step = step }

func (p *previous) Look(layer int, give func(Look)) {
	if p.w.Steps[p.step].Prefill {
		return
	}
	p.w.targets(layer, p.distance, func(target int) {
		u := newUnion(p.w.Experts)
		for _, r := range p.w.Steps[p.step].Rows {
			u.most(r.Of(r.At-1, target), p.w.TopK)
		}
		give(u.look(target))
	})
}

// targets are the layers that are predicted at a layer: before the first those up to the
// distance, and then the one that lies it ahead.
func (w *Workload) targets(layer, distance int, each func(target int)) {
	if layer < 0 {
		for target := range min(distance, w.Layers) {
			each(target)
		}
	} else if layer+distance < w.Layers {
		each(layer + distance)
	}
}

// oracle knows what rows choose, a distance ahead.
type oracle struct {
	w        *Workload
	step     int
	distance int
}

func (o *oracle) Begin(step int) { o.step = step }

func (o *oracle) Look(layer int, give func(Look)) {
	o.w.targets(layer, o.distance, func(target int) {
		look := Look{Target: target, Told: make([]float32, o.w.Experts)}
		for e, n := range o.w.Loads(o.step, target) {
			if n > 0 {
				look.Told[e] = 1
				look.Fetch = append(look.Fetch, Hint{e, 1})
			}
		}
		give(look)
	})
}
