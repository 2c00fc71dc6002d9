package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Takes takes in what an access takes on hosts, where no setting has said it.
func (c *Core) Takes(d cost.Device) {
	if c.s.Takes == nil {
		c.s.Takes = &d
	}
}

// division is by what gates divide rows; nil where the policy does not divide them, or
// what accesses take is unknown.
func (r *round) division() *pb.AccessTime {
	if !r.c.divides() {
		return nil
	}
	return plan.Access(divide.TakesOf(*r.c.s.Takes, float64(r.bytes()), r.c.perMessage.seconds))
}

func (c *Core) divides() bool { return c.mode.divides && c.s.Takes != nil }

// perMessage is what a message takes by the plans that gates divide rows by.
type perMessage struct {
	seconds, since float64
	known          bool
}

const (
	// otherMessage is by what factor messages have to take more, or less, than plans say for
	// plans to say it, as each time all layers' plans are written.
	otherMessage = 1.5
	// shortMessage are seconds below which all messages are equally short.
	shortMessage = 5e-6
)

// timeMessages lets plans say what a message takes, as it is measured: at once what the plan in
// force says, and from then on once a horizon at most, and only while no change of a layer is
// judged by its times.
func (c *Core) timeMessages(now float64, k plan.Known) {
	if !c.divides() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, measured := &c.perMessage, c.messageSeconds()
	if !m.known {
		*m = perMessage{seconds: measured, since: now, known: true}
		if before, said := c.messageOf(k); said {
			m.seconds = before
		}
	}
	times := max(measured, shortMessage) / max(m.seconds, shortMessage)
	if c.tries() || now-m.since < c.s.Horizon || times < otherMessage && times > 1/otherMessage {
		return
	}
	m.seconds, m.since = measured, now
	for number := range c.layers {
		c.judge.Changed(now, number)
	}
}

// tries says whether a change of any layer is judged by its times.
func (c *Core) tries() bool {
	for _, l := range c.layers {
		if l.try != nil {
			return true
		}
	}
	return false
}

// dividesElse says whether gates divide rows in another way than before.
func dividesElse(before, now *pb.AccessTime) bool {
	return (before == nil) != (now == nil) || plan.Takes(before) != plan.Takes(now)
}

// messageOf is what a message takes by the plan in force; false if that says nothing of it.
func (c *Core) messageOf(k plan.Known) (seconds float64, said bool) {
	for _, l := range k.InForce {
		if l.Division != nil {
			return max(0, l.Division.CallSeconds-c.s.Takes.Call), true
		}
	}
	return 0, false
}

// divided is busiest where gates divide rows by what accesses take. An expert with fewer rows
// than steps has one in some of them.
func (r *round) divided(w *work, l layout) float64 {
	steps, experts := w.perStep(), make([]divide.Expert, len(l))
	for e, load := range w.loads {
		for _, s := range l[e] {
			if s.want == warm {
				experts[e].Hosts = append(experts[e].Hosts, s.host)
			}
		}
		slices.Sort(experts[e].Hosts)
		divide.HomeFirst(experts[e].Hosts, e, len(r.hosts))
		if load > 0 && len(experts[e].Hosts) > 0 {
			experts[e].Rows = int(math.Ceil(load / steps))
		}
	}
	takes, busy := plan.Takes(r.division()).Device(1), make([]float64, len(r.hosts))
	for _, s := range divide.New(takes, 1, len(r.hosts)).Least(nil, experts) {
		seconds := takes.Seconds(cost.Access{Bytes: 1, Rows: s.Rows})
		busy[s.Host] += seconds * min(steps, w.loads[s.Expert])
	}
	return slices.Max(append(busy, 0))
}
