package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// scheduler decides what becomes of the sequences. Time and results are handed
// to it: it waits for nothing, and starts nothing but records of the token log,
// which it queues. Engine drives it.
//
//	admitted ──▶ in line for pages ──▶ ready ──next──▶ in flight ──settle──▶ ready … ──▶ ended
//	                                   ready ──an older one needs pages──▶ aside ──▶ ready
type scheduler struct {
	now   func() time.Time
	log   *slog.Logger
	stats *stats

	own     *owned
	seats   *seats
	journal *journal
	crew    crew
	chooser chooser
	trial   trial
	drafts  drafts
	prefix  prefixes
	machine machine
	masks   masks
	// directives say what gates are to obey; nil: nothing, ever. decoded are the sequences of the
	// newest step without prompts.
	directives Directives
	decoded    []*Sequence
}

func newScheduler(policy batching.Policy, workers []*worker, now func() time.Time, log *slog.Logger, st *stats) *scheduler {
	own := &owned{byRequest: map[string]*Sequence{}}
	d := &scheduler{
		now: now, log: log, stats: st, own: own, seats: &seats{kv: st.kv, own: own}, journal: &journal{now: now, log: log, stats: st},
		crew: crew{idle: slices.Clone(workers), busy: map[*microbatch]*worker{}}, chooser: chooser{policy: policy}, machine: machine{log: log}, masks: newMasks(),
	}
	d.chooser.pace.Seconds = d.drafts.price.Step
	return d
}

func (d *scheduler) add(s *Sequence) {
	if old := d.own.byRequest[s.seq.RequestId]; old != nil && old.epoch > s.epoch {
		s.delivery.Drop() // its claim took long, and the request came again
		s.free()
		return
	} else if old != nil {
		d.abandon(old) // its log is s's now
	}
	d.own.byRequest[s.seq.RequestId] = s
	d.own.order = append(d.own.order, s)
	d.tellActive()
	if s.end != nil {
		d.finish(s)
		return
	}
	d.seats.join(s)
	d.serve()
}

// tellActive tells how many sequences there are, and pages that they have.
func (d *scheduler) tellActive() { d.stats.active(len(d.own.byRequest)) }

// next is the next microbatch and the idle worker that takes it; nil, nil: there is
// none for now.
func (d *scheduler) next() (*microbatch, *worker) {
	d.chooser.askWithin = 0
	if len(d.crew.idle) == 0 || d.machine.broken != nil {
		return nil, nil
	}
	d.stretch()
	if s := d.chooser.collect(d.own.order, d.trial.of); s != nil {
		d.trial.of = s
	}
	if d.trial.of != nil && !d.try() {
		return nil, nil
	}
	mb := d.chooser.choose(d.own, &d.drafts.price)
	if mb == nil {
		return nil, nil
	}
	d.obey(mb)
	if d.chooser.batches == nil {
		d.drafts.add(mb, d.chooser.policy.MaxRows-mb.rows)
	}
	d.chooser.charge(mb)
	d.own.rotate(mb)
	return mb, d.crew.give(mb)
}

// write writes the records that settle has made. What steps next is given to its worker before, and does not wait for
// them. It reports whether a sequence ended as its record could not be written, so that others may have its place.
func (d *scheduler) write() (ended bool) {
	d.journal.write()
	for len(d.journal.failed) > 0 {
		s := d.journal.failed[0]
		d.journal.failed = d.journal.failed[1:]
		if !s.ended {
			d.finish(s)
			ended = true
		}
	}
	return ended
}

// settle takes a microbatch's results in.
func (d *scheduler) settle(mb *microbatch) {
	d.crew.idle = append(d.crew.idle, d.crew.busy[mb])
	delete(d.crew.busy, mb)
	mb.with(nil)
	if mb.err == nil {
		d.chooser.observe(mb, &d.drafts.price)
	}
	ofDevice := d.machine.judge(mb)
	var fault *panicError
	for i := range mb.parts {
		p := &mb.parts[i]
		p.s.flight = nil
		switch {
		case p.s.ended:
			d.remove(p.s) // ended while it was in flight
		case errors.Is(mb.err, context.Canceled):
			// This replica stops, and hands the sequence over.
		case ofDevice:
			// It steps again.
		case errors.As(mb.err, &fault) && len(mb.parts) > 1:
			p.s.suspect = true // one of them did it: each is tried alone
		case errors.Is(mb.err, errPassed):
			p.s.end = p.s.late(p.s.generated())
			d.finish(p.s)
		case mb.err != nil:
			d.stepFailed(p.s, mb.err)
		default:
			p.s.suspect = false
			d.advance(p)
		}
		d.endTrial(p.s)
	}
}

func (d *scheduler) stepFailed(s *Sequence, err error) {
	d.log.Error("step abandoned", "request", s.seq.RequestId, "error", err)
	var fault *panicError
	if errors.As(err, &fault) {
		s.fault = fault
	}
	s.end = ErrorEnd(internal, edge.Fault)
	d.finish(s)
}

// advance takes in what a step made of a sequence.
func (d *scheduler) advance(p *part) {
	d.stats.drafted(p)
	d.journal.advance(p)
	d.prefix.offer(p.s)
	switch {
	case p.s.end != nil:
		d.finish(p.s)
	case p.s.away:
		d.masks.ask(p.s)
	}
}

// followed lets a sequence step on of which it is known what may come next.
func (d *scheduler) followed(s *Sequence) {
	s.away = false
	if s.end = cmp.Or(s.end, s.unfollowed()); s.end != nil && !s.ended {
		d.finish(s)
	}
}

// finish ends a sequence.
func (d *scheduler) finish(s *Sequence) {
	d.journal.finish(s)
	d.letGo(s)
}

// letGo removes a sequence that has ended, unless a worker has it.
func (d *scheduler) letGo(s *Sequence) {
	if s.flight == nil {
		d.remove(s)
	}
}

// remove frees what the sequence held. It must not be in flight.
func (d *scheduler) remove(s *Sequence) {
	d.seats.leaveLine(s)
	d.endTrial(s)
	s.free()
	d.own.remove(s)
	d.tellActive()
	d.serve()
}

func (d *scheduler) cancel(c *pb.Cancel) {
	s := d.own.byRequest[c.RequestId]
	if s == nil || s.ended {
		return
	}
	s.end = &pb.Terminal{FinishReason: c.Reason}
	d.finish(s)
}

// tick ends the sequences that are late.
func (d *scheduler) tick() {
	now := d.now()
	d.journal.closing = slices.DeleteFunc(d.journal.closing, isClosed)
	for _, s := range slices.Clone(d.own.order) { // ending one changes the order
		if !s.ended && !s.deadline.IsZero() && now.After(s.deadline) {
			s.end = s.late(s.generated())
			d.finish(s)
		}
	}
}

// serve gives free pages to those who wait for them.
func (d *scheduler) serve() {
	for s, ok := d.seats.next(); ok; s, ok = d.seats.next() {
		if !d.sit(s) {
			return
		}
	}
	d.invite()
}

// invite seats newcomers that need not wait for those aside, in the place of the youngest.
func (d *scheduler) invite() {
	for s := d.seats.guest(); s != nil; s = d.seats.guest() {
		for d.seats.lacks(s) {
			v := d.seats.youngest()
			if v == nil {
				return // its worker has to be done first
			}
			d.stepAside(v)
		}
		d.seats.line.Serve(s)
		if !d.sit(s) {
			return
		}
	}
}

// sit gives a sequence its pages.
func (d *scheduler) sit(s *Sequence) bool {
	first, err := d.seats.sit(s)
	if err != nil {
		d.stepFailed(s, err) // cannot be: no other component takes pages
		return false
	}
	d.stats.spared(s, d.prefix.begin(s))
	if first {
		s.leaveQueue(d.now(), s.epoch)
		if s.epoch == 1 && !s.flow.IsCanary() {
			d.stats.metrics.QueueWait().Observe(s.queued.Seconds())
		}
	}
	d.tellActive()
	return true
}

// stretch gives sequences that have outgrown their pages more, the oldest first.
func (d *scheduler) stretch() {
	for _, s := range d.seats.cramped() {
		d.grow(s)
	}
	d.invite()
}

// grow gives a sequence pages for all of its ids. While those that it needs are with a
// worker, it keeps what it has and does not step.
func (d *scheduler) grow(s *Sequence) {
	if s.guest && d.seats.dismiss(s) {
		d.stepAside(s)
		return
	}
	for s.table != nil {
		if d.seats.grow(s) {
			d.tellActive()
			return
		}
		v := d.seats.youngest()
		if v == nil {
			return
		}
		d.stepAside(v)
	}
}

// stepAside takes a sequence's pages for an older one, or one of a tenant that has fewer.
func (d *scheduler) stepAside(s *Sequence) {
	d.seats.putAside(s)
	d.endTrial(s)
	d.stats.metrics.Preemptions.Inc()
	d.stats.presence.Add("preemptions_total", 1)
	d.log.Debug("a sequence stepped aside", "request", s.seq.RequestId, "tokens", s.generated(), "times", s.asides)
}

// abandon frees a sequence whose log another claim has, as soon as its worker is done.
func (d *scheduler) abandon(s *Sequence) {
	s.ended = true
	s.delivery.Drop()
	d.letGo(s)
}

// drop forgets a sequence whose log another writer has ended or claimed, or has
// no room for it.
func (d *scheduler) drop(l lostLog) {
	s := d.own.byRequest[l.request]
	switch {
	case s == nil || s.writer != l.writer:
	case l.full != nil && !s.ended:
		d.log.Warn("a request was ended: its log takes no more", "request", l.request, "tokens", s.generated(), "error", l.full)
		s.end = noRoom(l.full)
		s.end.Timings = s.timings(d.now())
		d.journal.close(s)
		d.letGo(s)
	case l.full == nil:
		d.abandon(s)
	}
}

// leave is what a replica that stops leaves to another: logs to be written to
// their end, and sequences to go on with from there.
func (d *scheduler) leave() (closing []logWriter, open []*Sequence) {
	_ = d.write() // nothing steps any more
	if s := d.trial.of; s != nil {
		d.endTrial(s)
	}
	for _, s := range d.own.order {
		if !s.ended {
			open = append(open, s)
		}
	}
	return d.journal.closing, open
}

// lifetime is when a sequence came, began, and has to be over, by this host's clock as the
// log's timestamps correct it.
type lifetime struct {
	accepted time.Time
	queued   time.Duration
	first    time.Time // its first token
	deadline time.Time // zero: none
	limited  bool      // the deadline is the log's age
}

// endBefore gives a sequence a deadline of its own where its producer set none,
// or a later one.
func (l *lifetime) endBefore(longest time.Duration) {
	if latest := l.accepted.Add(longest); l.deadline.IsZero() || latest.Before(l.deadline) {
		l.deadline, l.limited = latest, true
	}
}

// late is the end of a sequence whose deadline has passed.
func (l *lifetime) late(tokens int) *pb.Terminal {
	if l.limited {
		return ErrorEnd("deadline_exceeded", fmt.Sprintf("the request took longer than its log is sure to last; it ended after %d tokens (raise --log-age)", tokens))
	}
	return ErrorEnd("deadline_exceeded", fmt.Sprintf("the deadline passed after %d tokens", tokens))
}

// leaveQueue notes for how long it waited.
func (l *lifetime) leaveQueue(now time.Time, epoch uint64) {
	if epoch == 1 { // as for later ones, whose first owner's wait is not known
		l.queued = now.Sub(l.accepted)
	}
}

// timings are in seconds since acceptance.
func (l *lifetime) timings(now time.Time) *pb.Timings {
	t := &pb.Timings{Queue: l.queued.Seconds(), Total: now.Sub(l.accepted).Seconds()}
	if !l.first.IsZero() {
		t.Ttft = l.first.Sub(l.accepted).Seconds()
	}
	return t
}
