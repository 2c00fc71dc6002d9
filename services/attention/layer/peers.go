package layer

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Peers is what a replica knows of the services behind it.
type Peers struct {
	mu          sync.RWMutex
	aggregators []string
	rowSums     map[string]bool // those of them that take sums of whole rows
	gates       []string
	allReady    chan struct{}
	hosts       int    // that serve
	trouble     string // of gates
	// suspects are aggregators and gates that did not answer, until when.
	suspects map[string]time.Time

	// Set before the first use: how to address the stages behind.
	gateRoster, aggregatorRoster, expertRoster roster
}

// roster is members.Roster's part that addressing needs.
type roster interface {
	Doubt()
	Steady() bool
	Silences() uint64
	Heard() []*pb.Member
}

// update takes the members in.
func (p *Peers) update(all []*pb.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aggregators, p.gates, p.rowSums = p.aggregators[:0], p.gates[:0], map[string]bool{}
	for _, m := range members.OfService(all, "aggregator") {
		if members.Serves(m) {
			p.aggregators = append(p.aggregators, m.Id)
			p.rowSums[m.Id] = m.RowSums
		}
	}
	for _, m := range members.OfService(all, "gate") {
		if members.Serves(m) {
			p.gates = append(p.gates, m.Id)
		}
	}
	p.hosts = len(usableIDs(members.OfService(all, "expert")))
	p.trouble = members.Troubled(members.OfService(all, "gate"))
	if p.ok() == nil {
		p.announce()
	}
}

// announce wakes WaitReady; p.mu is held.
func (p *Peers) announce() {
	if p.allReady == nil {
		p.allReady = make(chan struct{})
	}
	select {
	case <-p.allReady:
	default:
		close(p.allReady)
	}
}

// WaitReady returns when a token could flow for the first time; false when ctx
// ended before.
func (p *Peers) WaitReady(ctx context.Context) bool {
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
func (p *Peers) ok() error {
	switch {
	case len(p.aggregators) == 0:
		return errors.New("no aggregator is ready")
	case len(p.gates) == 0:
		return errors.New("no gate is ready: none has a plan whose functions are all warm")
	}
	return nil
}

// Ready says why no token could flow; nil: it could.
func (p *Peers) Ready() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.ok()
}

// absent is why nobody could take rows: a stage behind has nobody who serves. nil: somebody could.
func (p *Peers) absent() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.ok(); err != nil || p.hosts > 0 {
		return err
	}
	return errors.New("no expert host is ready")
}

// lacks reports whether rows that are sent now may be in vain.
func (p *Peers) lacks() bool { return p.absent() != nil || p.troubled() != "" }

// troubled is what each gate says that it lacks; empty: one lacks nothing.
func (p *Peers) troubled() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.trouble
}

// suspicion is how long a replica that did not answer is avoided: by then a dead one
// is no member any more.
const suspicion = 2 * time.Second

// suspect is told when rows that a gate was to route, if one was named, and an
// aggregator was to collect did not come back. They may be innocent, but others do
// as well.
func (p *Peers) suspect(ids ...string) {
	p.gateRoster.Doubt()
	p.aggregatorRoster.Doubt()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspects == nil {
		p.suspects = map[string]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(p.suspects, func(_ string, until time.Time) bool { return now.After(until) })
	for _, id := range ids {
		if id != "" {
			p.suspects[id] = now.Add(suspicion)
		}
	}
}

// choose takes one of those in turn: the next one that is not suspected, if there
// is one; p.mu is held.
func (p *Peers) choose(from []string, at uint64) string {
	n := uint64(len(from))
	if len(p.suspects) > 0 {
		for i := range n {
			if id := from[(at+i)%n]; time.Now().After(p.suspects[id]) {
				return id
			}
		}
	}
	return from[at%n]
}

// aggregatorFor chooses the aggregator of a group of rows: each in its turn, and another
// one for another attempt. One that is suspected is the last choice. rowSums reports whether it
// takes sums of whole rows: one of an older version does not, nor one that is not known yet.
func (p *Peers) aggregatorFor(turn uint64, attempt uint32) (id string, rowSums, ok bool) {
	heard := p.heardAggregators()
	p.mu.RLock()
	defer p.mu.RUnlock()
	from := p.aggregators
	if len(heard) > 0 {
		from = heard
	}
	if len(from) == 0 {
		return "", false, false
	}
	id = p.choose(from, turn+uint64(attempt))
	return id, p.rowSums[id], true
}

// heardAggregators are those that surely live; none while all are steady.
func (p *Peers) heardAggregators() []string {
	if p.aggregatorRoster.Steady() {
		return nil
	}
	return usableIDs(p.aggregatorRoster.Heard())
}

// gate names the gate for some rows; empty is any gate, of which there are several then, or
// none. Rows that were lost go to the one that was heard last, and to another one with each
// attempt. One that is suspected is the last choice.
func (p *Peers) gate(turn uint64, attempt uint32) string {
	if attempt == 0 && p.gateRoster.Steady() {
		return p.onlyGate()
	}
	heard := usableIDs(p.gateRoster.Heard())
	if len(heard) == 0 {
		return ""
	}
	at := turn
	if attempt > 0 {
		at = uint64(attempt - 1)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.choose(heard, at)
}

// onlyGate is the gate that serves, where no other one does: there is nothing to share out
// then, and what has one receiver needs no stream.
func (p *Peers) onlyGate() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.gates) != 1 {
		return ""
	}
	return p.gates[0]
}

func usableIDs(all []*pb.Member) (ids []string) {
	for _, m := range all {
		if members.Serves(m) {
			ids = append(ids, m.Id)
		}
	}
	return ids
}

// See takes in which members there are now. What may be with a replica that has just fallen
// silent is hurried, and what nobody could take while a stage was away, as soon as it is back.
func (l *Layer) See(all []*pb.Member) {
	lacked := l.Peers.lacks()
	l.Peers.update(all)
	before := l.silences
	l.silences = l.Peers.gateRoster.Silences() + l.Peers.aggregatorRoster.Silences() + l.Peers.expertRoster.Silences()
	if l.silences > before || lacked && !l.Peers.lacks() {
		l.Exchange.hurryAll()
	}
}

// What a server that is back had in memory is lost, and what was sent while it was away;
// the services behind come back within returnsWithin of each other.
const (
	returnsWithin = 2 * time.Second
	returnsEvery  = 250 * time.Millisecond
)

// FollowServer hurries, until ctx ends, what may have been lost with the server; back is
// closed when it is back.
func (l *Layer) FollowServer(ctx context.Context, back <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-back:
		}
		back = l.d.Conn.Reconnection()
		for range returnsWithin / returnsEvery {
			l.Exchange.hurryAll()
			if pause.For(ctx, returnsEvery) != nil {
				return
			}
		}
	}
}

// FollowFunctions hurries, until ctx ends, what may be with a host whose functions
// the gates have just found elsewhere, and notes which layers' rows wait for a cold
// function.
func (l *Layer) FollowFunctions(ctx context.Context) error {
	rules, newest := l.d.FunctionRules(), newestPlans{}
	stop, err := l.d.Conn.FollowKeys(l.d.Functions.Bucket(), planstore.AnyKey, func(key string, value []byte, deleted bool) {
		l.Exchange.waking.hear(rules, key, value, deleted)
		if gate, err := rules.DecodeGate(key, value); err == nil && !deleted && newest.update(gate.Versions) {
			l.Exchange.hurryAll()
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// newestPlans are the newest of each layer that a gate uses.
type newestPlans map[uint32]uint64

// update reports whether a gate has gone over to a newer plan of a layer.
func (n newestPlans) update(versions map[uint32]uint64) (newer bool) {
	for l, v := range versions {
		if v > n[l] {
			n[l], newer = v, true
		}
	}
	return newer
}
