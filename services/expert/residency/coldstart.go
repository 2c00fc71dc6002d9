package residency

import (
	"time"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// coldStart is how rows found a function cold: the first ones load it, all that
// come meanwhile wait for the same load.
type coldStart struct {
	began time.Time
	warm  bool
	// over is when the first rows were computed; zero: not yet. What came before was
	// sent by somebody who had no answer.
	over time.Time
	// computed is what was computed of that, by the attempt.
	computed map[share]uint32
}

// maxComputed is more than waits for one load: that many are computed after it only if
// nothing that had waited was.
const maxComputed = 1024

// seenWithin is how much later than a dispatch's end those are seen that came
// meanwhile; rows are not sent again so soon.
const seenWithin = 50 * time.Millisecond

// share names rows of a step that one function gets, whatever the attempt.
type share struct {
	owner       string
	epoch, step uint64
	microbatch  uint32
	layer, part uint32
	aggregator  string
	first, rows int
}

func shareOf(d *pb.Dispatch) share {
	k := d.GetKey()
	of := share{
		owner: k.GetOwner(), epoch: k.GetEpoch(), step: k.GetStep(), microbatch: k.GetMicrobatch(),
		layer: k.GetLayer(), part: k.GetPart(), aggregator: k.GetAggregator(), rows: len(d.GetPlace()),
	}
	if of.rows > 0 {
		of.first = int(d.Place[0])
	}
	return of
}

func newColdStart() *coldStart {
	return &coldStart{began: time.Now(), computed: map[share]uint32{}}
}

// warmed notes that the function is warm.
func (c *coldStart) warmed(m telemetry.HostMetrics) {
	if c != nil && !c.warm {
		c.warm = true
		m.ColdStart.Observe(time.Since(c.began).Seconds())
	}
}

// done notes that rows that had waited were computed.
func (c *coldStart) done() {
	if c != nil {
		c.over = time.Now()
	}
}

// past says whether what arrives then did not wait for the cold start.
func (c *coldStart) past(arrived time.Time) bool {
	return !c.over.IsZero() && arrived.After(c.over.Add(seenWithin)) || len(c.computed) >= maxComputed
}

// repeats says whether the same rows, to the same aggregator, were computed for an
// earlier attempt after these came: both had waited for the same cold start.
func (c *coldStart) repeats(d *pb.Dispatch) bool {
	of, attempt := shareOf(d), d.GetKey().GetAttempt()
	if earlier, computed := c.computed[of]; computed && earlier < attempt {
		return true
	}
	c.computed[of] = attempt
	return false
}
