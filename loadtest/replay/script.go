package replay

import (
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/batching"
)

// missing is for how many seconds rows of a scripted step may not be there: longer than
// attention takes to send lost rows again.
const missing = 15

// Script are the steps of a run, for others with the same requests.
func (r *Result) Script() []Scripted { return r.script }

// player has attention make the steps of another run. Before it begins, and behind the last
// step, it chooses as policy does.
type player struct {
	policy batching.Policy
	fail   func(error)

	mu     sync.Mutex
	script Script
	began  time.Time
	failed bool
	pace   batching.Pace
}

func (p *player) begin(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = at
}

// choose implements deployment.Batches.
func (p *player) choose(ready []batching.Item, out []batching.Take) ([]batching.Take, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed:
		return out[:0], 0
	case p.began.IsZero() || p.script.Ended():
		return p.policy.Next(ready, decoding(ready), &p.pace, out), 0
	}
	takes, again, err := p.script.Next(time.Since(p.began).Seconds(), ready, out)
	if err != nil {
		p.failed = true
		p.fail(err)
	}
	return takes, time.Duration(again * float64(time.Second))
}

func decoding(ready []batching.Item) (n int) {
	for i := range ready {
		if ready[i].Prefill == 0 {
			n++
		}
	}
	return n
}

// ended hears that a request has failed: steps that have rows of it cannot be made.
func (p *player) ended(request string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed && !p.script.Ended() {
		p.failed = true
		p.fail(p.script.Failed(request, fmt.Sprintf("has ended: %v", why)))
	}
}

// scripted are steps in the order in which they were made.
func scripted(steps []*Step) []Scripted {
	all := make([]Scripted, len(steps))
	for i, s := range steps {
		all[i].At = s.At.Seconds()
		for _, p := range s.Parts {
			all[i].Parts = append(all[i].Parts, Rows{Request: p.Request, First: p.First, Rows: p.Rows})
		}
	}
	return all
}
