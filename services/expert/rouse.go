package expert

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// coldStart is how rows found a function cold: the first ones load it, all that
// come meanwhile wait for the same load.
type coldStart struct {
	began time.Time
	warm  bool
	// over is when the first rows were computed; zero: not yet. What came before was
	// sent by somebody who had no answer.
	over time.Time
	// computed is what was computed of that, by the attempt.
	computed map[share]uint32
}

// maxComputed is more than waits for one load: that many are computed after it only if
// nothing that had waited was.
const maxComputed = 1024

// handOver is how much later than a dispatch's end those are seen that came
// meanwhile; rows are not sent again so soon.
const handOver = 50 * time.Millisecond

// share names rows of a step that one function gets, whatever the attempt.
type share struct {
	owner       string
	epoch, step uint64
	microbatch  uint32
	layer, part uint32
	aggregator  string
	first, rows int
}

func shareOf(d *pb.Dispatch) share {
	k := d.GetKey()
	of := share{
		owner: k.GetOwner(), epoch: k.GetEpoch(), step: k.GetStep(), microbatch: k.GetMicrobatch(),
		layer: k.GetLayer(), part: k.GetPart(), aggregator: k.GetShard(), rows: len(d.GetPlace()),
	}
	if of.rows > 0 {
		of.first = int(d.Place[0])
	}
	return of
}

// stale says whether the same rows, to the same aggregator, were computed for an
// earlier attempt after these came: both had waited for the same cold start; the
// service's mu is held.
func (f *function) stale(d *pb.Dispatch, arrived time.Time) bool {
	c := f.start
	if c == nil {
		return false
	}
	if !c.over.IsZero() && arrived.After(c.over.Add(handOver)) || len(c.computed) >= maxComputed {
		f.start = nil
		return false
	}
	of, attempt := shareOf(d), d.GetKey().GetAttempt()
	earlier, computed := c.computed[of]
	if computed && earlier < attempt {
		return true
	}
	c.computed[of] = attempt
	return false
}

// rouseLocked lets a cold function become warm, and the loads pass others of one that
// becomes so already; s.mu is held.
func (s *Service) rouseLocked(f *function) {
	s.demand(f)
	if f.want != cold || f.roused {
		return
	}
	f.roused, f.priority = true, s.adopted
	f.start = &coldStart{began: time.Now(), computed: map[share]uint32{}}
	s.coldStarts++
	s.metrics.Hosts.ColdStarts.Inc()
	s.kick(f)
}

// demand says that rows wait for a function's loads; s.mu is held.
func (s *Service) demand(f *function) {
	if f.demanded {
		return
	}
	f.demanded = true
	f.eachExpert(func(id forward.ExpertID) {
		if s.device.State(id).Phase == device.Loading { // this ticket is one more
			s.device.Load(s.ctx, id, f.urgency()).Release() //nolint:contextcheck,nolintlint // what others wait for
		}
	})
}

// urgency is the priority of a function's loads; the service's mu is held.
func (f *function) urgency() int64 {
	if f.demanded {
		return f.priority + device.Demanded
	}
	return f.priority
}

// admission is how rows came to be computed, or not.
type admission struct {
	waited bool // for the experts
	cold   bool // for a function that rows had found cold
	stale  bool // they were computed while they waited
}

// rouse makes a function warm that rows have come for, and waits while it is to
// become so. If the rows are to be computed they are under way from now on, until
// done.
func (s *Service) rouse(ctx context.Context, f *function, d *pb.Dispatch, arrived time.Time) (a admission, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now()
	for f.want != nothing && f.state.Phase != isWarm {
		a.waited = true
		s.rouseLocked(f)
		f.waits++
		err := s.awaitWarm(ctx, f)
		if f.waits--; err != nil {
			s.nextInLine()
			return a, err
		}
		if f.want == nothing && f.state.Phase != isWarm {
			return a, fmt.Errorf("function %s was dropped before it was warm", f.spec.Id)
		}
	}
	if a.cold = a.waited && f.want == cold; a.cold {
		s.coldWait += time.Since(since)
	}
	if a.stale = f.stale(d, arrived); !a.stale {
		f.begin()
	}
	return a, nil
}

// awaitWarm waits for a function's experts; s.mu is held, but not meanwhile.
func (s *Service) awaitWarm(ctx context.Context, f *function) error {
	warmed := f.warmed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-warmed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("function %s is not warm: %w", f.spec.Id, ctx.Err())
	}
}

// begin counts a dispatch that is under way; the service's mu is held.
func (f *function) begin() {
	f.busy.Add(1)
	if f.want == cold {
		f.unused = time.Now()
	}
}

// done ends what begin began; with the end of rows that waited a cold start is over.
func (s *Service) done(f *function, waited bool) {
	if left := f.busy.Add(-1); !waited && (left > 0 || !s.lined.Load()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextInLine()
	if waited && f.start != nil {
		f.start.over = time.Now()
	}
}

// started notes that a function that rows have roused is warm; s.mu is held.
func (s *Service) started(f *function) {
	if c := f.start; c != nil && !c.warm {
		c.warm = true
		s.metrics.Hosts.ColdStart.Observe(time.Since(c.began).Seconds())
	}
}
