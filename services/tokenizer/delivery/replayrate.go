package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// What replays to further readers may take of a tokenizer, beside those to the requests'
// own producers, which tokens are paid for: so many chunks a second of one tenant's
// requests, and of all of them together. To begin one takes as long as beginChunks do.
const (
	tenantChunks, allChunks = 4000.0, 16000.0
	beginChunks             = 8
	// burstFor is for how long a tenant may have gone without, to have all of it at once.
	burstFor = 2 * time.Second
	// longestWait is how long a reader waits to begin; one that would wait longer is refused.
	longestWait = 5 * time.Second
	// maxRated bounds the tenants of which it is known what they had.
	maxRated = 4096
)

// replayRate is when replays to further readers may send, by tenant.
type replayRate struct {
	mu   sync.Mutex
	all  time.Time            // when all that was sent is paid for
	each map[string]time.Time // by tenant
}

func newReplayRate() *replayRate { return &replayRate{each: map[string]time.Time{}} }

// chunk is how long a chunk waits.
func (p *replayRate) chunk(tenant string, now time.Time) time.Duration { return p.take(tenant, 1, now) }

// begin is how long a stream waits before it begins, or why it does not.
func (p *replayRate) begin(tenant string, now time.Time) (time.Duration, error) {
	p.mu.Lock()
	wait := p.wait(tenant, now)
	p.mu.Unlock()
	if wait > longestWait {
		refused := edge.Errorf(edge.Overloaded, "requests of this tenant are streamed again at %.0f chunks a second, as many as may be of one tenant (of all, %.0f)", tenantChunks, allChunks)
		refused.RetryAfter = admission.After(wait.Seconds())
		return 0, refused
	}
	return p.take(tenant, beginChunks, now), nil
}

// take takes so many chunks' time, and says how long to wait for it.
func (p *replayRate) take(tenant string, chunks int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.wait(tenant, now)
	p.all = later(p.all, now, chunks, allChunks)
	if _, known := p.each[tenant]; !known && len(p.each) >= maxRated {
		p.sweep(now)
	}
	p.each[tenant] = later(p.each[tenant], now, chunks, tenantChunks)
	return wait
}

// wait is how long it takes until what was sent is paid for, but for a burst; p.mu is held.
func (p *replayRate) wait(tenant string, now time.Time) time.Duration {
	return max(0, max(p.all.Sub(now), p.each[tenant].Sub(now), 0)-burstFor)
}

// later is when chunks more are paid for.
func later(paid, now time.Time, chunks int, rate float64) time.Time {
	if paid.Before(now) {
		paid = now
	}
	return paid.Add(time.Duration(float64(chunks) / rate * float64(time.Second)))
}

// await waits, if there is anything to wait for.
func await(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err() //nolint:wrapcheck // the caller knows what it waits for
	}
	return pause.For(ctx, wait)
}

// sweep forgets the tenants that have paid for all, or all of them; p.mu is held.
func (p *replayRate) sweep(now time.Time) {
	for tenant, paid := range p.each {
		if !paid.After(now) {
			delete(p.each, tenant)
		}
	}
	if len(p.each) >= maxRated {
		clear(p.each)
	}
}
