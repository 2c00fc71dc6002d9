package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// Play has everything go wrong that a schedule says, by a clock, until ctx ends,
// and waits until all is whole again.
func (s *Site) Play(ctx context.Context, plan schedule.Schedule, clock func() time.Duration) []Hit {
	hits := make([]Hit, len(plan))
	began, played := clock(), len(plan)
	var all sync.WaitGroup
	for i, f := range plan {
		if !sleep(ctx, f.At-(clock()-began)) {
			played = i
			break
		}
		all.Go(func() { hits[i] = s.hit(f, clock) }) //nolint:contextcheck,nolintlint // processes outlive the schedule
	}
	all.Wait()
	return hits[:played]
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// hit does a fault at the places that are whole, and repairs them.
func (s *Site) hit(f schedule.Fault, clock func() time.Duration) Hit {
	target, found := s.find(f)
	hit := Hit{Fault: f, Began: clock()}
	places := s.take(target)
	if !found || len(places) == 0 {
		hit.Skipped = true
		return hit
	}
	var all sync.WaitGroup
	for _, p := range places {
		all.Go(func() {
			defer p.whole.Unlock()
			if err := s.fault(f, p); err != nil {
				s.problem(fmt.Errorf("%v: %w", f, err))
			}
		})
	}
	all.Wait()
	hit.Back = clock()
	return hit
}

// find is whom a fault hits; a leader is known only now.
func (s *Site) find(f schedule.Fault) (target schedule.Target, found bool) {
	if f.Kind != schedule.Leader {
		return f.Target, true
	}
	server, err := s.leader()
	if err != nil {
		s.problem(fmt.Errorf("%v: %w", f, err))
		return target, false
	}
	return schedule.Target{Service: schedule.Server, Replica: slices.Index(s.fleet.Servers, server)}, true
}

// electedWithin bounds the wait for a leader: longer than NATS's elections.
const electedWithin = 15 * time.Second

// leader is the server that leads, once there is one.
func (s *Site) leader() (*fleet.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), electedWithin)
	defer cancel()
	for {
		server, err := s.fleet.Leader(ctx)
		if err == nil || !sleep(ctx, leaderPause) {
			return server, err
		}
	}
}

// leaderPause is that between two questions who leads.
const leaderPause = 100 * time.Millisecond

// take returns a target's places that nothing is wrong with, locked.
func (s *Site) take(t schedule.Target) (out []*place) {
	for at, p := range s.places {
		same := t.Service == schedule.Any && at.Service != schedule.Server || t.Service == at.Service
		if same && (t.Replica == schedule.All || t.Replica == at.Replica) && p.whole.TryLock() {
			out = append(out, p)
		}
	}
	return out
}

// fault does what a fault is at one place, and returns when it is whole again.
func (s *Site) fault(f schedule.Fault, p *place) error {
	if p.process.Ended() {
		s.problem(fmt.Errorf("%v ended by itself:\n%s", p.target, p.process.Tail()))
		return s.replace(p)
	}
	switch f.Kind {
	case schedule.Kill, schedule.Storm, schedule.Leader:
		p.process.Kill()
		time.Sleep(f.For)
		return s.replace(p)
	case schedule.Drain:
		s.problem(p.end())
		time.Sleep(f.For)
		return s.replace(p)
	case schedule.Hang:
		return p.hang(f.For)
	case schedule.Vanish:
		return s.vanish(f, p)
	case schedule.Disk:
		return s.fill(f, p)
	case schedule.Memory:
		return s.starve(f, p)
	case schedule.Skew:
		return p.skew(f.For)
	}
	if err := p.link.Spoil(f.Kind, f.For); err != nil {
		return err
	}
	time.Sleep(f.For)
	p.link.Heal()
	return nil
}

// end asks the process to end. Servers end with a code of their own.
func (p *place) end() error {
	err := p.process.End()
	if p.server != nil {
		return nil
	}
	return err
}

func (p *place) hang(length time.Duration) error {
	if err := p.process.Suspend(); err != nil {
		return err
	}
	time.Sleep(length)
	return p.process.Resume()
}

// vanish kills a process, and another one is there before the servers know.
func (s *Site) vanish(f schedule.Fault, p *place) error {
	if err := p.link.Spoil(f.Kind, f.For); err != nil {
		return err
	}
	p.process.Kill()
	err := s.replace(p)
	time.Sleep(f.For)
	p.link.Heal()
	return err
}

// replace has another process take the place of one that has ended.
func (s *Site) replace(p *place) error {
	p.process = s.launch(p)
	return p.ready()
}
