package elastic

// heard is what samples have told of a layer, as of one moment: they come on while the layer
// is decided on.
type heard struct {
	loads []float64 // rows in a second; nil: nobody has told
	rate  float64   // parts of microbatches in a second; 0: gates have not told of late
	few   bool      // gates tell of steps, and have told of too few to try layouts on
	last  []step    // the last steps; nil: there are few
	scale float64   // of their rows
	// row and took are the seconds of a row and of a step, and fits what hosts take for messages.
	row, took mean
	fits      access
}

// listen takes what samples have told of all layers, and lets the hosts of a round tell.
func (c *Core) listen(r *round) {
	hosts := make(map[string]bool, len(r.hosts))
	for i := range r.hosts {
		hosts[r.hosts[i].id] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts = hosts
	r.message, r.loading = c.messageSeconds(), c.loading.or(c.s.LoadSeconds)
	r.waiting, r.queued = c.backlog.now()
}

// hear takes what samples have told of a layer, and lets them be heard on its trial.
func (c *Core) hear(r *round, w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.follow(w, w.old)
	w.inherit(r.now, func(e int) bool { return len(w.old[e]) > 0 && w.old.count(e, cold) == len(w.old[e]) })
	w.heard = w.layer.heard(r.now, c.mode)
	w.idle = make([]bool, len(w.seen))
	for e, seen := range w.seen {
		w.idle[e] = c.mode.toZero && r.now-seen > c.stays(w.number)
	}
	w.shareFate()
}

// heard is what has been told until now.
func (l *layer) heard(now float64, m mode) heard {
	h := heard{loads: l.expected(now, m), rate: l.stepRate(now), few: l.fewSteps(now), row: l.row, took: l.took, fits: l.access}
	h.last, h.scale = l.toReplay(now, m)
	return h
}
