package elastic

import (
	"errors"
	"fmt"
	"maps"

	"github.com/switchyard/switchyard/pkg/control/loads"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Counts are of samples since the start.
type Counts struct {
	// Taken counted for something.
	Taken uint64
	// Repeated had been taken already, or came far behind later ones.
	Repeated uint64
	// Missing never came, as the numbers of later ones tell.
	Missing uint64
	// Refused are of each kind.
	Refused map[string]uint64
}

// Counts are of all samples so far.
func (c *Core) Counts() Counts {
	now := c.counts
	now.Refused = maps.Clone(now.Refused)
	return now
}

// sender is a replica that sends samples.
type sender struct {
	heard  float64
	layers map[uint32]*numbers
	// starts and waited are a host's cold starts, as of its newest sample.
	starts uint64
	waited uint64
	told   bool
}

const (
	// maxSenders bounds what is remembered of replicas.
	maxSenders = 8192
	// forgetAfter is how long one has to be silent for another one to take its place.
	forgetAfter = 600
	// maxSeconds bounds what a row or a load is believed to take.
	maxSeconds = 3600
)

// Observe takes a sample in that has come now. What was taken before changes
// nothing; what cannot be is refused with a SampleError, and changes nothing either.
func (c *Core) Observe(now float64, s *pb.LoadSample) error {
	now = c.at(now)
	err := c.check(s)
	var from *sender
	if err == nil {
		from, err = c.sender(now, s.Host)
	}
	var bad *SampleError
	if errors.As(err, &bad) {
		c.counts.Refused[bad.Kind]++
		return err
	}
	if fresh, missing := from.number(s); !fresh {
		c.counts.Repeated++
	} else {
		c.counts.Taken++
		c.counts.Missing += missing
		c.take(now, from, s)
	}
	return nil
}

func (c *Core) sender(now float64, id string) (*sender, error) {
	s := c.senders[id]
	if s == nil {
		if len(c.senders) >= maxSenders {
			c.forgetSilent(now)
		}
		if len(c.senders) >= maxSenders {
			return nil, &SampleError{TooMany, fmt.Errorf("%w: %s is one more than %d replicas", loads.ErrSample, id, maxSenders)}
		}
		s = &sender{layers: map[uint32]*numbers{}}
		c.senders[id] = s
	}
	s.heard = now
	return s, nil
}

func (c *Core) forgetSilent(now float64) {
	for id, s := range c.senders {
		if now-s.heard > forgetAfter {
			delete(c.senders, id)
		}
	}
}

func (s *sender) number(sample *pb.LoadSample) (fresh bool, missing uint64) {
	n := s.layers[sample.Layer]
	if n == nil {
		n = &numbers{}
		s.layers[sample.Layer] = n
	}
	return n.take(sample.Number)
}

func (c *Core) take(now float64, from *sender, s *pb.LoadSample) {
	l := c.layers[int(s.Layer)]
	if len(s.Expert)+len(s.Steps) > 0 {
		c.heard = now
	}
	switch s.Source {
	case pb.LoadSource_LOAD_SOURCE_UNSPECIFIED:
		l.takeHost(now, s)
		c.takeLoads(from, s.Memory)
		return
	case pb.LoadSource_LOAD_SOURCE_ATTENTION:
		c.takeTimes(now, l, s)
		return
	}
	for _, step := range s.Steps {
		if step.Probe {
			l.probed = now
			continue
		}
		w := l.gates
		if step.Distance > 0 {
			w = l.predictions(min(step.Distance, maxDistance))
		} else {
			l.steps.advance(now)
			l.steps.add(now, 0, 1)
			l.recent.remember(now, step)
		}
		w.advance(now)
		for i, e := range step.Expert {
			w.add(now, e, float64(step.Count[i]))
			l.saw(now, e, step.Count[i] > 0)
		}
		switch {
		case step.Distance > 0:
			l.foretold.remember(now, step)
			l.foresee(now, min(step.Distance, maxDistance), step.Expert, step.Count)
			continue
		case l.total != nil:
			l.total.addAll(now, step.Expert, step.Count)
		}
		if l.came != nil {
			l.came.addAll(now, step.Expert, step.Count)
		}
	}
}

// saw takes note that an expert has rows, or is to have some.
func (l *layer) saw(now float64, expert uint32, rows bool) {
	if rows {
		l.seen[expert] = now
	}
}

func (l *layer) takeHost(now float64, s *pb.LoadSample) {
	if len(s.Expert) > 0 {
		l.hosts.advance(now)
	}
	// While gates tell, they say which rows are load: hosts compute probes, too.
	told := min(l.gates.since(now), now-l.probed) <= gatesFresh
	for i, e := range s.Expert {
		l.hosts.add(now, e, float64(s.Rows[i]))
		l.saw(now, e, s.Rows[i] > 0 && !told)
	}
	for _, f := range s.Functions {
		if seconds := float64(f.GetComputeNs()) / 1e9; f.GetRows() > 0 && seconds > 0 && seconds < maxSeconds {
			l.row.add(seconds / float64(f.Rows))
			l.access.add(f, seconds)
		}
	}
}

// takeLoads takes in what loads have taken that rows waited for.
func (c *Core) takeLoads(from *sender, m *pb.HostLoad) {
	if m == nil || m.ColdStarts < from.starts || m.ColdStartNs < from.waited {
		return // an older one
	}
	starts, waited := m.ColdStarts-from.starts, float64(m.ColdStartNs-from.waited)/1e9
	if from.told && starts > 0 && waited < maxSeconds {
		c.loading.add(waited / float64(starts))
	}
	from.starts, from.waited, from.told = m.ColdStarts, m.ColdStartNs, true
}

// silence is how long no sample has to come, in seconds, before rows mean that
// samples get lost.
const silence = 5

// Computed takes note of how many rows hosts say that they have computed, by another
// way than samples. When there are more and no sample tells of them, then samples do
// not get here, and no expert is idle for all that is known.
func (c *Core) Computed(now, rows float64) {
	now = c.at(now)
	switch {
	case c.unheard > 0 && c.heard >= c.unheard-1: // samples came with these rows, or just before
		c.unheard = 0
	case c.unheard == 0 && rows != c.rows && c.heard < now-1:
		c.unheard = now
	}
	if c.unheard > 0 && now-c.unheard >= silence {
		for number, l := range c.layers {
			stays := c.stays(number)
			for e := range l.seen {
				if now-l.seen[e] <= stays { // the others are cold: their rows wake them
					l.seen[e] = now
				}
			}
		}
	}
	c.rows = rows
}
