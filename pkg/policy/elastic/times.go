package elastic

import (
	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/policy/feedback"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// takeTimes takes in what a layer took, as attention measured it.
func (c *Core) takeTimes(now float64, l *layer, s *pb.LoadSample) {
	for _, t := range s.Times {
		steps, rows, seconds := float64(t.Steps), float64(t.Rows), float64(t.TotalNs)/1e9
		class := claims.Class(rows / steps)
		c.judge.Observe(now, int(s.Layer), feedback.Times{Class: class, Steps: steps, Rows: rows, TotalSeconds: seconds})
		l.took.add(seconds / steps)
		c.message.add(stratum{int(s.Layer), class}, t)
	}
}

// slope is what one dispatch more makes a layer take: the slope of the line through the
// message times of steps by their dispatches, among steps of one layer with about the same rows.
type slope struct{ strata map[stratum]*sums }

type stratum struct{ layer, class int }

// sums are those of steps, the newest most: of x their dispatches and y their message seconds.
type sums struct{ n, x, y, xx, xy float64 }

const (
	// slopeKeep is what a sample still weighs after another one of its stratum.
	slopeKeep = 0.99
	// slopeDoubt is how many squared dispatches of scatter are as sure as what is assumed.
	slopeDoubt = 200
	// maxMessage bounds what a message is believed to take, in seconds.
	maxMessage = 10e-3
)

func (s *slope) add(at stratum, t *pb.LayerTime) {
	if s.strata == nil {
		s.strata = map[stratum]*sums{}
	}
	of := s.strata[at]
	if of == nil {
		of = &sums{}
		s.strata[at] = of
	}
	for _, v := range []*float64{&of.n, &of.x, &of.y, &of.xx, &of.xy} {
		*v *= slopeKeep
	}
	of.n += float64(t.Steps)
	of.x += float64(t.Dispatches)
	of.y += float64(t.MessageNs) / 1e9
	of.xx += float64(t.Squares)
	of.xy += float64(t.Products) / 1e9
}

// or is the slope, pulled to what is assumed as long as little was measured.
func (s *slope) or(assumed float64) float64 {
	scatter, together := slopeDoubt+0.0, slopeDoubt*assumed
	for _, of := range s.strata {
		scatter += max(0, of.xx-of.x*of.x/of.n)
		together += of.xy - of.x*of.y/of.n
	}
	return min(max(0, together/scatter), maxMessage)
}

// messageSeconds is what one message more takes: as set, or as measured. c.mu is held.
func (c *Core) messageSeconds() float64 {
	if c.s.MessageFixed {
		return c.s.MessageSeconds
	}
	return c.message.or(c.s.MessageSeconds)
}

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

func (l *layer) heard(now float64, m mode) heard {
	h := heard{loads: l.expected(now, m), rate: l.stepRate(now), few: l.fewSteps(now), row: l.row, took: l.took, fits: l.access}
	h.last, h.scale = l.toReplay(now, m)
	return h
}

// doubt are the rows that a correction needs to be half believed.
const doubt = 100

// Correct takes predictions times what came of those before: where an expert always gets
// more rows than are foreseen, as many more are expected again. foreseen and came are the
// rows of each expert so far, the newer the more. It adds to to.
func Correct(to, predicted, foreseen, came []float64) []float64 {
	for e, n := range predicted {
		to = append(to, n*(came[e]+doubt)/(foreseen[e]+doubt))
	}
	return to
}
