package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a layout would take is found out on the last steps themselves: what each host would
// have computed of each, the busiest of them, and the messages.

const (
	// replayed is how many steps of a layer are remembered, replayLeast how many it takes,
	// replayFresh for how many seconds they count, and replayApart how many are between two:
	// of more steps a sample is enough.
	replayed, replayLeast = 64, 4
	replayFresh           = 5
	replayApart           = 0.08
	// replayWork bounds the experts of all steps that are tried.
	replayWork = 2048
)

// step is what one part of a microbatch asked of a layer.
type step struct {
	when          float64
	expert, count []uint32
}

// lastSteps are a sample of the newest ones.
type lastSteps struct {
	ring [replayed]step
	turn int
}

// remember takes a step in; a sum of several is none.
func (l *lastSteps) remember(now float64, s *pb.StepLoad) {
	if s.Parts > 1 {
		return
	}
	if last := l.ring[(l.turn+replayed-1)%replayed]; last.expert != nil && now-last.when < replayApart {
		return
	}
	l.ring[l.turn%replayed] = step{now, s.Expert, s.Count}
	l.turn++
}

// since are those that came after a time; nil if there are few.
func (l *lastSteps) since(time float64) (steps []step) {
	for _, s := range l.ring {
		if s.expert != nil && s.when >= time {
			steps = append(steps, s)
		}
	}
	if len(steps) < replayLeast {
		return nil
	}
	return steps
}

// toReplay are the steps that a layout is tried on: those that are foreseen, if the mode
// goes by predictions and there are fresh ones, or else counted ones. Predictors may tell of
// a part of the rows: theirs are scaled to as many as gates have counted a step. Where gates
// divide rows, which experts have rows in the same step decides what a copy saves, and of that
// predictions tell little.
func (l *layer) toReplay(now float64, m mode) (steps []step, scale float64) {
	counted := l.recent.since(now - replayFresh)
	if !m.predicted || m.divides || counted == nil {
		return counted, 1
	}
	foretold := l.foretold.since(now - predictedFresh)
	if foretold == nil {
		return counted, 1
	}
	return foretold, rowsOf(counted) / rowsOf(foretold)
}

// fewSteps says that gates tell of steps, and have told of too few to try layouts on.
func (l *layer) fewSteps(now float64) bool {
	return l.stepRate(now) > 0 && l.recent.turn < replayLeast
}

func rowsOf(steps []step) (mean float64) {
	for _, s := range steps {
		for _, n := range s.count {
			mean += float64(n)
		}
	}
	return mean / float64(len(steps))
}

// every2nd are the steps at even places, or at odd ones, if there are enough. Copies are chosen on
// some steps and weighed on others: on the same ones they would seem to save what chance had made of these.
func every2nd(steps []step, from int) (some []step) {
	if len(steps) < 4*replayLeast {
		return steps
	}
	for i := from; i < len(steps); i += 2 {
		some = append(some, steps[i])
	}
	return some
}

// replayer computes steps under a layout.
type replayer struct {
	timer   cost.Timer
	message float64
	scale   float64 // of rows
	bytes   float64
	on      [][]int // hosts of each expert
	set     []int   // its function, by the first expert of it
	busy    []float64
	touched []int
	rows    []int // of each function, by its first expert
	// functions are those with rows in a step, by their first experts.
	functions []int
	// divider divides as gates do that go by what accesses take; nil: in equal parts.
	divider *divide.Divider
	units   []int // experts of each function
	asked   []divide.Expert
	shares  []divide.Share
	// hostRows are the rows of each host in a step.
	hostRows []int
}

func (r *round) replayer(w *work, l layout, message float64) *replayer {
	p := &replayer{timer: r.timer(w), message: message, scale: w.scale, bytes: float64(r.bytes()), on: make([][]int, len(l)), set: make([]int, len(l)), busy: make([]float64, len(r.hosts)), rows: make([]int, len(l))}
	if d := r.division(); d != nil {
		p.divider, p.units = divide.New(plan.Takes(d).Device(1), 1, len(r.hosts)), make([]int, len(l))
	}
	first := map[string]int{}
	var key []byte
	for e := range l {
		p.on[e], p.set[e] = l.having(e, warm), e
		if r.k.Settings.Grouping == plan.ByExpert {
			continue
		}
		key = key[:0]
		for _, s := range l[e] {
			key = append(key, byte(s.host), byte(s.host>>8), byte(s.host>>16), byte(s.want))
		}
		if at, known := first[string(key)]; known {
			p.set[e] = at
		} else {
			first[string(key)] = e
		}
	}
	for e := range p.units {
		p.units[p.set[e]]++
		divide.HomeFirst(p.on[e], e, len(p.busy))
	}
	return p
}

// mean is what steps take in the mean, and how many messages they have.
func (p *replayer) mean(steps []step) (seconds, messages float64) {
	for i, s := range steps {
		took, n := p.step(i, s)
		seconds += took + float64(n)*p.message
		messages += float64(n)
	}
	return seconds / float64(len(steps)), messages / float64(len(steps))
}

func (p *replayer) step(number int, s step) (took float64, messages int) {
	p.touched = p.touched[:0]
	functions := p.functions[:0]
	for i, e := range s.expert {
		if int(e) >= len(p.on) || len(p.on[e]) == 0 {
			continue
		}
		if p.rows[p.set[e]] == 0 {
			functions = append(functions, p.set[e])
		}
		rows := max(1, int(math.Round(float64(s.count[i])*p.scale)))
		p.rows[p.set[e]] += rows
		if p.divider == nil {
			p.divide(p.on[e], rows, number+int(e))
		}
	}
	p.functions = functions
	if p.divider != nil {
		return p.least(functions)
	}
	for _, f := range functions {
		messages += min(p.rows[f], len(p.on[f]))
		p.rows[f] = 0
	}
	for _, h := range p.touched {
		took = max(took, p.busy[h])
		p.busy[h] = 0
	}
	return took, messages
}

// least divides functions' rows as gates do. What the busiest host takes has the messages in it.
func (p *replayer) least(functions []int) (took float64, messages int) {
	p.asked = p.asked[:0]
	for _, f := range functions {
		p.asked = append(p.asked, divide.Expert{Rows: p.rows[f], Hosts: p.on[f], Units: p.units[f]})
		p.rows[f] = 0
	}
	p.shares = p.divider.Least(p.shares[:0], p.asked)
	return p.divider.Ends(), len(p.shares)
}

// divide gives an expert's rows to its hosts in equal parts, the first one in turn.
func (p *replayer) divide(on []int, rows, turn int) {
	n := min(rows, len(on))
	for i := range n {
		h := on[(turn+i)%len(on)]
		part := rows / n
		if i < rows%n {
			part++
		}
		if p.busy[h] == 0 {
			p.touched = append(p.touched, h)
		}
		p.busy[h] += p.timer.Seconds(cost.Access{Bytes: p.bytes, Rows: part})
	}
}

// replay fills in what a layout takes by the last steps; false if there are too few.
func (r *round) replay(w *work, l layout, o *outlook) bool {
	if w.last == nil || w.rate == 0 {
		return false
	}
	steps := w.last
	if r.division() != nil {
		steps = every2nd(steps, 0)
	}
	if most := max(replayLeast, replayWork/len(l)); len(steps) > most {
		steps = steps[:most]
	}
	seconds, messages := r.replayer(w, l, r.message).mean(steps)
	o.busy, o.messages = seconds*w.rate, messages*w.rate
	return true
}

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

// tries reports whether a change of any layer is judged by its times.
func (c *Core) tries() bool {
	for _, l := range c.layers {
		if l.try != nil {
			return true
		}
	}
	return false
}

// dividesElse reports whether gates divide rows in another way than before.
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
