package attention

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// peers is what a replica knows of the services behind it.
type peers struct {
	mu          sync.RWMutex
	aggregators []string
	gates       int
	allReady    chan struct{}
	// suspects are aggregators that did not answer, until when.
	suspects map[string]time.Time
}

// followPeers keeps the peers up to date until ctx ends.
func (s *Service) followPeers(ctx context.Context) {
	s.view.Follow(ctx, s.peers.update)
}

func (p *peers) update(all []*pb.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aggregators, p.gates = p.aggregators[:0], 0
	for _, m := range members.OfService(all, "aggregator") {
		if m.Ready && !m.Draining {
			p.aggregators = append(p.aggregators, m.Id)
		}
	}
	for _, m := range members.OfService(all, "gate") {
		if m.Ready && !m.Draining {
			p.gates++
		}
	}
	if p.ok() == nil {
		p.announce()
	}
}

// announce wakes waitReady; p.mu is held.
func (p *peers) announce() {
	if p.allReady == nil {
		p.allReady = make(chan struct{})
	}
	select {
	case <-p.allReady:
	default:
		close(p.allReady)
	}
}

// waitReady returns when a token could flow for the first time; false when ctx
// ended before.
func (p *peers) waitReady(ctx context.Context) bool {
	p.mu.Lock()
	if p.allReady == nil {
		p.allReady = make(chan struct{})
	}
	ready := p.allReady
	p.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// ok says what is missing; p.mu is held.
func (p *peers) ok() error {
	switch {
	case len(p.aggregators) == 0:
		return errors.New("no aggregator is ready")
	case p.gates == 0:
		return errors.New("no gate is ready: none has a plan whose functions are all warm")
	}
	return nil
}

func (p *peers) ready() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.ok()
}

// suspicion is how long an aggregator that did not answer is avoided: by then
// a dead one is no member any more.
const suspicion = 2 * time.Second

// suspect avoids an aggregator for a while. It may be innocent, but another one
// does as well.
func (p *peers) suspect(shard string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspects == nil {
		p.suspects = map[string]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(p.suspects, func(_ string, until time.Time) bool { return now.After(until) })
	p.suspects[shard] = now.Add(suspicion)
}

// shard chooses the aggregator of a group of rows: any live one, and another
// one for another attempt. One that is suspected is the last choice.
func (p *peers) shard(microbatch uint64, attempt uint32) (string, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := uint64(len(p.aggregators))
	if n == 0 {
		return "", false
	}
	at := microbatch + uint64(attempt)
	if len(p.suspects) > 0 {
		for i := range n {
			if id := p.aggregators[(at+i)%n]; time.Now().After(p.suspects[id]) {
				return id, true
			}
		}
	}
	return p.aggregators[at%n], true
}
