package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestTranscripts replays what happens to a scheduler. Events:
//
//	scheduler workers= rows= min= pages= step=   a new one: its microbatches' bounds and KV pages
//	admit R prompt= max= epoch= logged=5,6 deadline= score= doubtful=1   a claimed request; token 9 is its stop token
//	done W token= R=TOKEN layers= heads=   worker W has computed, and how long it took
//	steps N token= R=TOKEN                 so many microbatches, one after the other; told is only what is not usual
//	fail W error=, panic W, passed W, stopped W   or it has not
//	stored R          the terminal record is in the log
//	conflict R        another owner writes R's log; ended R: another has ended it
//	full R, room R    the log takes no records; it does again
//	cut R             there was no room for too long: the writer has queued the end
//	unwritable R error=   the next record is refused
//	device W is=lost  the device failed with what worker W has; lost: it says itself that it is gone
//	cancel R reason=, tick DURATION, stop
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		return (&stage{t: t}).event
	})
}

// stage is a scheduler with all that surrounds it, which tells what it is made to do.
type stage struct {
	*bench
	t      testing.TB
	actors map[string]*actor // the newest of each request
	all    []*actor
	told   []string
}

func (g *stage) tell(format string, args ...any) {
	g.told = append(g.told, fmt.Sprintf(format, args...))
}

func (g *stage) event(t testing.TB, e *transcript.Event) []string {
	g.told = nil
	if e.Name == "scheduler" {
		g.build(e)
		return nil
	}
	g.happen(t, e)
	g.dispatch()
	return g.told
}

// dispatch gives idle workers what there is for them.
func (g *stage) dispatch() {
	g.look()
	for mb, w := g.next(); mb != nil; mb, w = g.next() {
		g.look()
		g.flying = append(g.flying, mb)
		g.tell("%s takes %s", g.nameOf(w), rowsOf(mb))
	}
	g.look()
}

// steps takes so many microbatches through the layers, those first that were first in
// flight, and tells what becomes of pages and ends.
func (g *stage) steps(e *transcript.Event) {
	n, err := strconv.Atoi(e.Arg(g.t, 0))
	if err != nil {
		e.Fatalf(g.t, "%v", err)
	}
	for range n {
		g.through(0, e)
		g.dispatch()
	}
	g.told = slices.DeleteFunc(g.told, func(line string) bool {
		return strings.HasPrefix(line, "worker ") || strings.HasPrefix(line, "log of ") && strings.Contains(line, ": token ")
	})
}

// look tells what changed without a call: who has fewer pages, and then who has more.
func (g *stage) look() {
	for _, a := range g.all {
		a.renewed = false
	}
	g.keeper.Renew()
	for _, a := range g.all {
		a.lookAside()
	}
	for _, a := range g.all {
		a.look()
	}
}

func (g *stage) build(e *transcript.Event) {
	g.bench = newBench(g.t, e.Int(g.t, "workers", 1), e.Int(g.t, "rows", 8))
	g.hasPages(e.Int(g.t, "pages", 64))
	g.chooser.policy.MinRows = e.Int(g.t, "min", 2)
	g.chooser.policy.MaxSeconds = e.Duration(g.t, "step", 0).Seconds()
	g.actors, g.all = map[string]*actor{}, nil
}

func (g *stage) happen(t testing.TB, e *transcript.Event) {
	switch e.Name {
	case "admit":
		g.admit(e)
	case "done":
		g.done(e)
	case "steps":
		g.steps(e)
	case "fail":
		g.fault(e, errors.New(e.Text("error", "no such expert")))
	case "panic":
		g.fault(e, &panicError{"index out of range"})
	case "passed":
		g.fault(e, errPassed)
	case "device":
		g.fault(e, &forward.DeviceError{Lost: e.Text("is", "") == "lost", Err: errors.New("the GPU is not well")})
		if g.machine.broken != nil {
			g.tell("leaves: %v", g.machine.broken)
		}
	case "lost":
		g.machine.lost(errors.New("the GPU has fallen off its bus"), len(g.own.byRequest))
		g.tell("leaves: %v", g.machine.broken)
	case "stopped":
		g.fault(e, context.Canceled)
	case "cancel":
		g.cancel(&pb.Cancel{RequestId: e.Arg(t, 0), Reason: e.Text("reason", "cancelled")})
	case "tick":
		span, err := time.ParseDuration(e.Arg(t, 0))
		if err != nil {
			e.Fatalf(t, "%v", err)
		}
		g.later(span)
	case "stop":
		g.stop()
	default:
		g.logEvent(t, e)
	}
}

// logEvent is what happens to a request's log.
func (g *stage) logEvent(t testing.TB, e *transcript.Event) {
	a := g.actors[e.Arg(t, 0)]
	if a == nil {
		e.Fatalf(t, "there is no such event, or no such request")
	}
	switch e.Name {
	case "stored":
		g.ender.finished(a.Sequence)
	case "conflict":
		g.lose(a, tokenlog.ErrStale)
	case "ended":
		g.lose(a, tokenlog.ErrFinished)
	case "full":
		a.full = true
	case "room":
		a.full = false
	case "cut":
		_ = a.Append(&pb.Record{Kind: &pb.Record_Terminal{Terminal: noRoom(tokenlog.ErrNoRoom)}}) // as the writer does
		g.drop(lostLog{request: a.name, writer: a, full: tokenlog.ErrNoRoom})
	case "unwritable":
		a.refused = errors.New(e.Text("error", "no"))
		if e.Text("error", "") == "too large" {
			a.refused = &bus.TooLargeError{Subject: "token", Size: 9, Limit: 8}
		}
	default:
		e.Fatalf(t, "there is no such event")
	}
}

// lose is what the log's writer does when it finds that its log is not its own.
func (g *stage) lose(a *actor, err error) {
	a.err = err
	g.ender.lost(a.Sequence, err)
	g.drop(lostLog{request: a.name, writer: a})
}

func (g *stage) admit(e *transcript.Event) {
	name := e.Arg(g.t, 0)
	s := g.request(name, e.Int(g.t, "prompt", 2), e.Int(g.t, "max", 3))
	s.epoch = uint64(e.Int(g.t, "epoch", 1))
	s.seq.Score, s.doubtful = e.Text("score", ""), e.Int(g.t, "doubtful", 0) > 0
	for id := range strings.FieldsFuncSeq(e.Text("logged", ""), func(r rune) bool { return r == ',' }) {
		s.take(sampling.Choice{ID: number(g.t, id)})
	}
	if e.Has("deadline") {
		s.deadline = g.clock.Add(e.Duration(g.t, "deadline", 0))
	}
	if s.epoch > 1 {
		name = fmt.Sprintf("%s (epoch %d)", name, s.epoch)
	}
	a := &actor{logbook: book(s), Sequence: s, name: name, stage: g}
	s.writer = a
	s.delivery.Delivery = told{a}
	release := s.release
	s.release = func(ids int) { release(ids); g.tell("%s is gone from here", name) }
	if old := g.actors[s.seq.RequestId]; old == nil || old.epoch < s.epoch {
		g.actors[s.seq.RequestId] = a
	}
	g.all = append(g.all, a)
	g.add(s)
}

func number(t testing.TB, s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// flight is what a worker has.
func (g *stage) flight(e *transcript.Event) (int, *microbatch) {
	for i, mb := range g.flying {
		if g.nameOf(g.crew.busy[mb]) == "worker "+e.Arg(g.t, 0) {
			return i, mb
		}
	}
	e.Fatalf(g.t, "this worker has nothing")
	return 0, nil
}

func (g *stage) fault(e *transcript.Event, err error) {
	i, _ := g.flight(e)
	g.land(i, 0, err)
}

// done gives every sequence whose rows are all in a token, and scores to those
// that want them, as a worker does.
func (g *stage) done(e *transcript.Event) {
	i, _ := g.flight(e)
	g.through(i, e)
}

func (g *stage) through(i int, e *transcript.Event) {
	mb := g.flying[i]
	g.flying = append(g.flying[:i], g.flying[i+1:]...)
	mb.layers, mb.heads = e.Duration(g.t, "layers", 0), e.Duration(g.t, "heads", 0)
	mb.stalls = e.Duration(g.t, "stalls", 0)
	usual := e.Text("token", "5")
	for j := range mb.parts {
		p := &mb.parts[j]
		token := number(g.t, e.Text(p.s.seq.RequestId, usual))
		for pos := p.s.done; pos < p.s.done+p.rows; pos++ {
			mb.wanted += p.compute(pos, token)
		}
	}
	g.settle(mb)
	g.write()
}

func (p *part) compute(pos int, token uint32) (wanted int) {
	if p.s.wantsScore(pos) {
		p.scores = append(p.scores, &pb.Score{Position: int32(pos)})
		wanted = 1
	}
	if pos == len(p.s.ids)-1 && p.s.generated() < int(p.s.seq.MaxTokens) {
		p.choices, wanted = []sampling.Choice{{ID: token}}, 1
	}
	return wanted
}

func (g *stage) stop() {
	closing, open := g.leave()
	for _, w := range closing {
		g.tell("to flush: the end of %s", nameIn(w))
	}
	for _, s := range open {
		g.tell("to give back: %s, with %d tokens", nameIn(s.writer), s.generated())
	}
}

// nameIn is whose log a writer writes.
func nameIn(w logWriter) string {
	a, ok := w.(*actor)
	if !ok {
		return "nobody"
	}
	return a.name
}

func (g *stage) nameOf(w *worker) string {
	for i, o := range g.workers {
		if o == w {
			return fmt.Sprintf("worker %d", i)
		}
	}
	return "nobody"
}

func rowsOf(mb *microbatch) string {
	parts := make([]string, len(mb.parts))
	for i, p := range mb.parts {
		s := p.s
		parts[i] = fmt.Sprintf("%s %d", nameIn(s.writer), s.done)
		if p.rows > 1 {
			parts[i] += fmt.Sprintf("..%d", s.done+p.rows-1)
		}
	}
	return strings.Join(parts, ", ")
}
