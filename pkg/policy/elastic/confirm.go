package elastic

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// No gate can have routed more rows than all hosts have computed. What a gate tells beyond
// that waits until hosts have computed as much, and counts for nothing if they do not.

const (
	// alwaysRows is how many rows of a layer, by each of its experts that a token row has, count
	// without a host's word.
	alwaysRows = 64
	// aheadSeconds is for how long hosts' words may come behind a gate's, and behindSeconds for
	// how long before it, as when Kafka was away.
	aheadSeconds, behindSeconds = 2, 60
	// forgiveSeconds is for how long what a gate has told too much counts: rows get lost with the
	// hosts that had them.
	forgiveSeconds = 30
	// rateSeconds is over how many seconds the rate of computed rows is a mean.
	rateSeconds = 3
	// confirmWithin is how many seconds a sample waits for hosts' word.
	confirmWithin = 5
	// heldPerLayer bounds the samples that wait, by the model's layers: those of 16 gates that
	// tell of a layer ten times a second come to 160 in the second that hosts' words may take.
	heldPerLayer = 256
)

// confirmation is what hosts say of the rows that they compute, by another way than samples.
type confirmation struct {
	said  bool    // some host has
	rows  float64 // of all layers, as they said last
	total float64 // of one layer at most, since they said so first
	rate  float64 // the same in a second
	when  float64
	held  []heldSample
}

// heldSample is a gate's that waits.
type heldSample struct {
	came float64
	from *sender
	*pb.LoadSample
}

// claim is what a gate has told of a layer beyond what hosts have computed; below 0 it may
// tell as much more.
type claim struct{ excess, total, when float64 }

// computed takes in how many routed rows hosts have computed, of so many layers at least each.
// The sum falls when a host goes.
func (f *confirmation) computed(now, rows float64, layers int) {
	if !f.said {
		f.said, f.rows, f.when = true, rows, now
		return
	}
	more, passed := max(0, rows-f.rows)/float64(layers), now-f.when
	f.rows = rows
	f.total += more
	if passed > 0 {
		f.rate += (more/passed - f.rate) * -math.Expm1(-passed/rateSeconds)
		f.when = now
	}
}

// confirms reports whether a gate's sample is within what hosts have computed, and counts it
// then. All are while no host says what it computes.
func (f *confirmation) confirms(now float64, from *sender, s *pb.LoadSample, topK int) bool {
	if !f.said || s.Source != pb.LoadSource_LOAD_SOURCE_GATE {
		return true
	}
	c := from.claims[s.Layer]
	if c == nil {
		c = &claim{total: f.total, when: now}
		from.claims[s.Layer] = c
	}
	c.excess = max(c.excess-(f.total-c.total), -behindSeconds*f.rate)
	if c.excess > 0 {
		c.excess *= math.Exp(-(now - c.when) / forgiveSeconds)
	}
	c.total, c.when = f.total, now
	rows := routedRows(s)
	if c.excess+rows > alwaysRows*float64(max(1, topK))+aheadSeconds*f.rate {
		return false
	}
	c.excess += rows
	return true
}

// routedRows are those of all steps of a sample that hosts were asked for: in a brownout not all
// that there were.
func routedRows(s *pb.LoadSample) (rows float64) {
	for _, step := range s.Steps {
		asked := step.Count
		if len(step.Served) > 0 {
			asked = step.Served
		}
		for _, n := range asked {
			rows += float64(n)
		}
		for _, u := range step.Units {
			for _, n := range u.GetRows() {
				rows += float64(n)
			}
		}
	}
	return rows
}

// Doubt is a gate's sample that no host has confirmed.
type Doubt struct {
	Gate  string
	Layer int
	Rows  float64 // routed rows that it tells of
}

// confirmHeld takes in the samples that hosts confirm now, and gives up those that have waited
// for too long.
func (c *Core) confirmHeld(now float64) {
	waiting := c.confirmation.held
	c.confirmation.held = waiting[:0:0]
	for _, h := range waiting {
		switch {
		case c.confirmation.confirms(now, h.from, h.LoadSample, c.model.TopK):
			c.counts.Taken++
			c.take(now, h.from, h.LoadSample)
		case now-h.came >= confirmWithin:
			c.doubt(h)
		default:
			c.confirmation.held = append(c.confirmation.held, h)
		}
	}
}

// hold lets a gate's sample wait for hosts' word.
func (c *Core) hold(now float64, from *sender, s *pb.LoadSample) {
	f := &c.confirmation
	if len(f.held) >= heldPerLayer*max(1, len(c.model.MoELayers)) {
		c.doubt(f.held[0])
		f.held = f.held[1:]
	}
	f.held = append(f.held, heldSample{now, from, s})
}

// maxDoubts bounds those that wait to be told.
const maxDoubts = 64

func (c *Core) doubt(h heldSample) {
	c.counts.Refused[BadRows]++
	if len(c.doubts) < maxDoubts {
		c.doubts = append(c.doubts, Doubt{h.Host, int(h.Layer), routedRows(h.LoadSample)})
	}
}

// Doubts are the samples that were given up since it was asked last, the first ones if there
// are many.
func (c *Core) Doubts() (all []Doubt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, c.doubts = c.doubts, nil
	return all
}

// Error says what is wrong, and what to do about it.
func (d Doubt) Error() string {
	return (&SampleError{BadRows, fmt.Errorf("%w: gate %s tells of %.0f routed rows of layer %d, which no hosts have computed within %d s", claims.ErrSample, d.Gate, d.Rows, d.Layer, confirmWithin)}).Error()
}
