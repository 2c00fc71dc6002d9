package probe

import (
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// tokenFlow reports whether tokens flow. What the requests of producers show counts; where no
// producer sends any, canaries do. It is told what happens and when, and does nothing itself.
type tokenFlow struct {
	self  string        // the id of this replica
	every time.Duration // how long no token may flow before a canary is due; 0: it need not
	least time.Duration // how long canaries may take at least

	mu     sync.Mutex
	words  map[string]word // what members said last, by id
	whole  bool            // no stage is missing
	losses int             // how often one went missing
	heard  int             // of these, after how many what members say now was surely said
	bound  time.Duration   // how long canaries may take
	last   time.Time       // when something flowed; zero: never since a stage was missing
	asked  time.Time       // when the first canary since then was due; zero: none was
	next   time.Time       // no canary is due before
	out    canary          // the one under way
	why    string          // of the last one that came to nothing
}

// word is what a member says.
type word struct {
	said  *pb.Member
	done  float64
	after int // how many losses it was surely said after
}

// canary is one request of one token.
type canary struct {
	id    string // "": none
	sent  time.Time
	waits string // for what, as far as this replica sees
}

// What a canary waits for, one after the other.
const (
	untaken   = "no tokenizer has taken it in"
	unclaimed = "no attention replica has begun it"
	uncounted = "its token has not come back from the layers"
)

const (
	// leastPatience is how long a canary may take however fast steps are.
	leastPatience = 10 * time.Second
	// stepsOfPatience is how many late steps it may take besides.
	stepsOfPatience = 2
	// CanaryWithin is a canary's deadline.
	CanaryWithin = time.Minute
	// canaryPause is how long after one that came to nothing the next one is due.
	canaryPause = 2 * time.Second
)

// What shows that something flows: tokens that came out of the log, and steps that
// went through all layers.
var flowing = map[string]string{"tokenizer": members.Chunks, "attention": members.Steps}

// StatLosses is the name under which a tokenizer announces how often it missed a stage.
const StatLosses = "stage_losses_total"

// look takes in what members say; whole says that no stage is missing among them.
func (f *tokenFlow) look(all []*pb.Member, whole bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bound = f.least + time.Duration(stepsOfPatience*members.LongestStep(all)*float64(time.Second))
	if f.hear(all) {
		f.flows(now)
	}
	if f.whole && !whole {
		f.losses++
	}
	if f.whole = whole; !whole {
		f.last, f.asked, f.next = time.Time{}, time.Time{}, now
	}
}

// hear takes in what members say, and reports whether one has done something between two
// words that it said after the last loss. What comes behind this replica's own word of a
// loss was said after it, however late this replica gets to hear it; f.mu is held.
func (f *tokenFlow) hear(all []*pb.Member) (done bool) {
	words := make(map[string]word, len(all))
	for _, m := range all {
		before, known := f.words[m.Id]
		now := before
		if before.said != m {
			now = word{m, doneBy(m), f.heard}
		}
		done = done || known && before.after == f.losses && now.after == f.losses && now.done > before.done
		words[m.Id] = now
	}
	f.words = words
	if words[f.self].said.GetStats()[StatLosses] == float64(f.losses) {
		f.heard = f.losses
	}
	return done
}

// doneBy is how much of what shows that something flows a member has done.
func doneBy(m *pb.Member) float64 {
	if n := m.Stats[flowing[m.Service]]; n > 0 { // which NaN is not
		return n
	}
	return 0
}

// lost is how often a stage went missing.
func (f *tokenFlow) lost() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.losses
}

// flows notes that something did; f.mu is held.
func (f *tokenFlow) flows(now time.Time) {
	f.last, f.asked, f.next = now, time.Time{}, now.Add(f.every)
}

// flowed reports whether something has flowed since a stage was missing last.
func (f *tokenFlow) flowed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.last.IsZero()
}

// due reports whether to send a canary now. What is sent, or cannot be, is told by sent
// or by failed.
func (f *tokenFlow) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.every == 0 || now.Before(f.next) || f.out.id != "" && now.Sub(f.out.sent) < CanaryWithin {
		return false
	}
	if f.asked.IsZero() {
		f.asked = now
	}
	return true
}

// sent notes a canary that is on its way.
func (f *tokenFlow) sent(id string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = canary{id, now, untaken}
}

// waits notes what a canary waits for.
func (f *tokenFlow) waits(id, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out.id == id {
		f.out.waits = what
	}
}

// answered notes that a canary has ended as it should, and reports whether that was the
// one under way, and how long it took.
func (f *tokenFlow) answered(id string, now time.Time) (took time.Duration, ours bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out.id != id {
		return 0, false
	}
	took = now.Sub(f.out.sent)
	f.out, f.why = canary{}, ""
	f.flows(now)
	return took, true
}

// failed notes that a canary came to nothing.
func (f *tokenFlow) failed(id, why string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out.id == id {
		f.out, f.why, f.next = canary{}, "request "+id+": "+why, now.Add(canaryPause)
	}
}

// ready says why no token flows; nil: one does, as far as is known.
func (f *tokenFlow) ready(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch waited := now.Sub(f.asked); {
	case f.every == 0 || !f.last.IsZero() && (f.asked.IsZero() || waited <= f.bound):
		return nil
	case f.asked.IsZero():
		return fmt.Errorf("no token has been seen to flow yet")
	default:
		return fmt.Errorf("no token has flowed for %v, though one was asked for: %s", waited.Round(100*time.Millisecond), f.trouble(now))
	}
}

// trouble says what became of the canary; f.mu is held.
func (f *tokenFlow) trouble(now time.Time) string {
	if f.out.id != "" {
		return fmt.Sprintf("request %s waits since %v: %s", f.out.id, now.Sub(f.out.sent).Round(100*time.Millisecond), f.out.waits)
	}
	return f.why
}

// ServerClock tells the servers' time, by what they say when a stream is looked at.
// Producers' deadlines are judged by it: this host's own clock may be minutes off,
// which would end requests that have time, or let late ones run.
type ServerClock struct {
	Here func() time.Time // this host's

	mu sync.Mutex
	// server was the servers' time when it was at here; zero: none has told.
	server, at time.Time
	within     time.Duration // how long the look took that set it
}

// exactLook is how long a look may take that sets the clock again, or as long as the
// one that set it took: the server read its own at some moment of it.
const exactLook = 100 * time.Millisecond

// set takes in what a server's clock showed between a question and its answer.
func (c *ServerClock) set(server, asked, answered time.Time) {
	if server.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if took := answered.Sub(asked); c.at.IsZero() || took <= max(exactLook, c.within) {
		c.server, c.at, c.within = server, asked.Add(took/2), took
	}
}

// Now is the servers' time, or this host's until a server has told its own.
func (c *ServerClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := c.Here()
	if c.at.IsZero() {
		return here
	}
	return c.server.Add(here.Sub(c.at))
}
