package elastic

import (
	"errors"
	"fmt"
	"maps"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/policy/world"
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
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.counts
	now.Refused = maps.Clone(now.Refused)
	return now
}

// sender is a replica that sends samples.
type sender struct {
	heard  float64
	layers map[uint32]*numbers
	claims map[uint32]*claim // a gate's
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
	c.mu.Lock()
	defer c.mu.Unlock()
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
	fresh, missing := from.number(s)
	c.counts.Missing += missing
	switch {
	case !fresh:
		c.counts.Repeated++
	case !c.confirmation.confirms(now, from, s, c.model.TopK):
		c.hold(now, from, s)
	default:
		c.counts.Taken++
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
			return nil, &SampleError{TooMany, fmt.Errorf("%w: %s is one more than %d replicas", claims.ErrSample, id, maxSenders)}
		}
		s = &sender{layers: map[uint32]*numbers{}, claims: map[uint32]*claim{}}
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
		if s.Waiting != nil {
			c.backlog.of[s.Host] = told{float64(s.GetWaiting()), now}
			c.backlog.sum(now)
		}
		return
	}
	for _, step := range s.Steps {
		if step.Probe {
			l.probed = now
			continue
		}
		l.takeStep(now, step)
		for i, e := range step.Expert {
			if step.Count[i] > 0 {
				l.seen[e] = now // or is to have some
			}
		}
	}
}

// takeStep takes in what a microbatch asks of a layer, or the sum of several.
func (l *layer) takeStep(now float64, s *pb.StepLoad) {
	if distance := min(s.Distance, maxDistance); distance > 0 {
		l.predictions(distance).addAll(now, s.Expert, s.Count)
		l.foretold.remember(now, s)
		l.foresee(now, distance, s.Expert, s.Count)
		return
	}
	l.steps.advance(now)
	l.steps.rows[0] += float64(max(1, s.Parts)) * l.steps.weight(now)
	l.recent.remember(now, s)
	l.gates.addAll(now, s.Expert, s.Count)
	if l.total != nil {
		l.total.addAll(now, s.Expert, s.Count)
	}
	if l.came != nil {
		l.came.addAll(now, s.Expert, s.Count)
	}
}

func (l *layer) takeHost(now float64, s *pb.LoadSample) {
	if len(s.Expert) > 0 {
		l.hosts.advance(now)
	}
	told := l.gatesTell(now)
	weight := l.hosts.weight(now)
	for i, e := range s.Expert {
		l.hosts.rows[e] += float64(s.Rows[i]) * weight
		if s.Rows[i] > 0 && !told {
			l.seen[e] = now
		}
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
// way than samples: gates' samples of more wait until it is as many. When there are more and no sample tells of them, then samples do
// not get here, and no expert is idle for all that is known.
func (c *Core) Computed(now, rows float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.at(now)
	c.backlog.sum(now)
	c.confirmation.computed(now, rows, c.model.layersOfRow())
	c.confirmHeld(now)
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

// backlogFresh is for how many seconds a replica's word counts of how many requests wait there:
// as long as some do it tells four times a second.
const backlogFresh = 2

// told is how many requests wait in an attention replica, and when it said so.
type told struct{ waiting, when float64 }

// backlog is how many requests wait in all attention replicas.
type backlog struct {
	of    map[string]told
	world *world.World // of no layers: it knows what waits, now and of late
}

func newBacklog() (b backlog, err error) {
	b.of = map[string]told{}
	b.world, err = world.New()
	return b, err
}

// sum adds up what all say who have been heard of late.
func (b *backlog) sum(now float64) {
	n := 0.0
	for host, t := range b.of {
		if now-t.when > backlogFresh {
			delete(b.of, host)
		} else {
			n += t.waiting
		}
	}
	// Neither can be refused: the clock is finite and at least 0, and so is the sum.
	_, _ = b.world.Observe(world.Clock(now)), b.world.Observe(world.Backlog(n))
}

// now is how many wait, and in which part of the time one has of late (world.World).
func (b *backlog) now() (waiting, queued float64) { return b.world.Waiting, b.world.Queued }

// Here says which attention replicas and gates are here: what others say counts no more. Without
// any gates they are not known.
func (c *Core) Here(now float64, attention, gates map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attention, c.gates = attention, gates
	for host := range c.backlog.of {
		if !attention[host] {
			delete(c.backlog.of, host)
		}
	}
	c.backlog.sum(c.at(now))
}

// Backlog is how many requests wait for their first step, and in which part of the time one has
// of late (world.World).
func (c *Core) Backlog() (waiting, queued float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backlog.now()
}
