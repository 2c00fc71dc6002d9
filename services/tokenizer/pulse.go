package tokenizer

import (
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pulse says whether tokens flow. What anybody's requests show counts; where nobody
// sends any, canaries do. It is told what happens and when, and does nothing itself.
type pulse struct {
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
	// canaryWithin is a canary's deadline.
	canaryWithin = time.Minute
	// canaryPause is how long after one that came to nothing the next one is due.
	canaryPause = 2 * time.Second
)

// What shows that something flows: tokens that came out of the log, and steps that
// went through all layers.
var flowing = map[string]string{"tokenizer": "chunks_total", "attention": "steps_total"}

// statLosses is the name under which a tokenizer announces how often it missed a stage.
const statLosses = "stage_losses_total"

// look takes in what members say; whole says that no stage is missing among them.
func (p *pulse) look(all []*pb.Member, whole bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = p.least + time.Duration(stepsOfPatience*members.LongestStep(all)*float64(time.Second))
	if p.hear(all) {
		p.flows(now)
	}
	if p.whole && !whole {
		p.losses++
	}
	if p.whole = whole; !whole {
		p.last, p.asked, p.next = time.Time{}, time.Time{}, now
	}
}

// hear takes in what members say, and says whether one has done something between two
// words that it said after the last loss. What comes behind this replica's own word of a
// loss was said after it, however late this replica gets to hear it; p.mu is held.
func (p *pulse) hear(all []*pb.Member) (done bool) {
	words := make(map[string]word, len(all))
	for _, m := range all {
		before, known := p.words[m.Id]
		now := before
		if before.said != m {
			now = word{m, doneBy(m), p.heard}
		}
		done = done || known && before.after == p.losses && now.after == p.losses && now.done > before.done
		words[m.Id] = now
	}
	p.words = words
	if words[p.self].said.GetStats()[statLosses] == float64(p.losses) {
		p.heard = p.losses
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
func (p *pulse) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.losses
}

// flows notes that something did; p.mu is held.
func (p *pulse) flows(now time.Time) {
	p.last, p.asked, p.next = now, time.Time{}, now.Add(p.every)
}

// due says whether to send a canary now. What is sent, or cannot be, is told by sent
// or by failed.
func (p *pulse) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.every == 0 || now.Before(p.next) || p.out.id != "" && now.Sub(p.out.sent) < canaryWithin {
		return false
	}
	if p.asked.IsZero() {
		p.asked = now
	}
	return true
}

// sent notes a canary that is on its way.
func (p *pulse) sent(id string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = canary{id, now, untaken}
}

// waits notes what a canary waits for.
func (p *pulse) waits(id, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.id == id {
		p.out.waits = what
	}
}

// answered notes that a canary has ended as it should, and says whether that was the
// one under way, and how long it took.
func (p *pulse) answered(id string, now time.Time) (took time.Duration, ours bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.id != id {
		return 0, false
	}
	took = now.Sub(p.out.sent)
	p.out, p.why = canary{}, ""
	p.flows(now)
	return took, true
}

// failed notes that a canary came to nothing.
func (p *pulse) failed(id, why string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.id == id {
		p.out, p.why, p.next = canary{}, "request "+id+": "+why, now.Add(canaryPause)
	}
}

// ready says why no token flows; nil: one does, as far as is known.
func (p *pulse) ready(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch waited := now.Sub(p.asked); {
	case p.every == 0 || !p.last.IsZero() && (p.asked.IsZero() || waited <= p.bound):
		return nil
	case p.asked.IsZero():
		return fmt.Errorf("no token has been seen to flow yet")
	default:
		return fmt.Errorf("no token has flowed for %v, though one was asked for: %s", waited.Round(100*time.Millisecond), p.trouble(now))
	}
}

// trouble says what became of the canary; p.mu is held.
func (p *pulse) trouble(now time.Time) string {
	if p.out.id != "" {
		return fmt.Sprintf("request %s waits since %v: %s", p.out.id, now.Sub(p.out.sent).Round(100*time.Millisecond), p.out.waits)
	}
	return p.why
}
