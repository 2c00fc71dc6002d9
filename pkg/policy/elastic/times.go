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
