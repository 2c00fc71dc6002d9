package aggregator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// gathersAtOnce bounds the partials whose outputs are being fetched: those behind them wait.
	gathersAtOnce = 16
	// mostForgotten bounds the groups whose objects are to be removed; age removes those of others.
	mostForgotten = 4096
)

// gathers fetch outputs that are in objects, beside what the aggregator does, and remove the objects
// of groups that are summed.
type gathers struct {
	rows   *transfer.Link
	places chan struct{}
	all    sync.WaitGroup

	begin  sync.Once
	ended  sync.Once
	groups chan string   // whose objects are to be removed; nobody closes it: late partials may still be summed
	ending chan struct{} // closed when no group needs to be forgotten any more
	gone   chan struct{}
	ctx    context.Context // of removing
	stop   context.CancelFunc
}

func newGathers(rows *transfer.Link) *gathers {
	g := &gathers{rows: rows, places: make(chan struct{}, gathersAtOnce), groups: make(chan string, mostForgotten), ending: make(chan struct{}), gone: make(chan struct{})}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// gather fetches the outputs of a partial and takes it in. It does not wait for that unless many are
// being fetched: a message that is received anew is of no use when its group is sent again anyway.
func (s *Service) gather(ctx context.Context, p *pb.Partial) error {
	if err := s.d.Shape.CheckKey(p.Key); err != nil {
		s.metrics.Refused.Inc()
		return bus.Poison(err)
	}
	if s.done(p) {
		return nil
	}
	g := s.gathers
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.all.Go(func() {
		defer func() { <-g.places }()
		defer s.d.Conn.Recover(s.d.Subjects.Partial(s.id))
		whole, err := g.rows.Of(p.Parcel).Gather(ctx, p)
		if err == nil {
			err = s.take(ctx, whole)
		}
		s.missed(ctx, p, err)
	})
	return nil
}

// done reports whether a partial's group is finished, and notes that this one came too late.
func (s *Service) done(p *pb.Partial) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if !s.groups.done.of[idOf(p)] {
		return false
	}
	s.repeat(p)
	return true
}

// repeat counts a partial that says nothing new, and removes what was stored for it.
func (s *Service) repeat(p *pb.Partial) {
	s.metrics.Repeats.Inc()
	if p.Parcel != nil {
		s.gathers.forget(p.Key)
	}
}

// missed says what became of a partial whose outputs could not be had: its owner has the rows
// computed again, unless they are summed already.
func (s *Service) missed(ctx context.Context, p *pb.Partial, err error) {
	switch {
	case err == nil || ctx.Err() != nil:
	case transfer.Lost(err):
		if !s.done(p) {
			_ = wire.Decline(ctx, s.d.Hop, s.d.Subjects, p.Key, fmt.Errorf("%s: %w", s.id, err)) // its owner issues the rows again anyway
		}
	default:
		s.metrics.Refused.Inc()
		s.d.Logger.Warn("a partial was not taken", "error", err)
	}
}

// forget removes a group's objects soon.
func (g *gathers) forget(k *pb.Key) {
	g.begin.Do(func() { go g.removeAll() })
	select {
	case g.groups <- transfer.Group(k):
	default:
	}
}

// removeAll removes one group's objects after the other's, until the end. What fails is removed by age.
func (g *gathers) removeAll() {
	defer close(g.gone)
	for {
		select {
		case group := <-g.groups:
			_ = g.rows.Forget(g.ctx, group)
		case <-g.ending:
			g.removeLast()
			return
		}
	}
}

// removeLast removes what was to be forgotten before the end.
func (g *gathers) removeLast() {
	for g.ctx.Err() == nil {
		select {
		case group := <-g.groups:
			_ = g.rows.Forget(g.ctx, group)
		default:
			return
		}
	}
}

// end waits for what is being fetched, and until ctx ends for what is being removed.
func (g *gathers) end(ctx context.Context) {
	g.all.Wait()
	g.ended.Do(func() {
		g.begin.Do(func() { close(g.gone) })
		close(g.ending)
	})
	defer context.AfterFunc(ctx, g.stop)()
	<-g.gone
}
