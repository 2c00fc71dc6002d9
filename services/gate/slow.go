package gate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// slowHosts are the expert hosts that this gate finds slow, by what they announce
// of their work. Each gate judges for itself.
type slowHosts struct {
	log     *slog.Logger
	metrics telemetry.HostMetrics
	judge   *quarantine.Judge
	began   time.Time
	// states are of those that are not trusted; nil while all are. It is never changed.
	states atomic.Pointer[map[string]quarantine.State]
}

func newSlowHosts(log *slog.Logger, m telemetry.HostMetrics) *slowHosts {
	return &slowHosts{log: log, metrics: m, judge: quarantine.New(quarantine.Defaults()), began: time.Now()}
}

// run looks at the members until ctx ends.
func (s *slowHosts) run(ctx context.Context, view *members.View) {
	defer s.metrics.Slow.Follow(s.count)()
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.look(now, view.Snapshot())
		}
	}
}

// look takes in what all members say now.
func (s *slowHosts) look(now time.Time, all []*pb.Member) {
	changes := s.judge.Observe(now.Sub(s.began).Seconds(), totals(all))
	for i := range changes {
		s.tell(&changes[i])
	}
	if len(changes) > 0 || s.states.Load() != nil { // also when one has gone
		s.publish(s.judge.Doubtful())
	}
}

func (s *slowHosts) publish(states map[string]quarantine.State) {
	if states == nil {
		s.states.Store(nil)
		return
	}
	s.states.Store(&states)
}

// totals returns what the expert hosts have done; one that has not said so is left out.
func totals(all []*pb.Member) map[string]quarantine.Total {
	out := map[string]quarantine.Total{}
	for _, m := range members.OfService(all, "expert") {
		if seconds, says := m.Stats[members.HostSeconds]; says {
			out[m.Id] = quarantine.Total{
				Device: m.Device, Messages: m.Stats[members.HostMessages], Rows: m.Stats[members.HostRows], Seconds: seconds,
				Throttled: m.Stats[members.DeviceThrottled] > 0, Loads: m.Stats[members.HostLoads],
			}
		}
	}
	return out
}

func (s *slowHosts) tell(c *quarantine.Change) {
	s.metrics.Judged(c.State.String())
	switch {
	case c.Throttle && c.State == quarantine.Avoided:
		s.log.Warn("an expert host's device throttles; rows that others can compute pass it by for as long as it says so", "host", c.Host)
	case c.Throttle:
		s.log.Info("an expert host's device throttles no more", "host", c.Host)
	case c.State == quarantine.Avoided:
		s.log.Warn("an expert host is slow; rows that others can compute pass it by, until it is tried again",
			"host", c.Host, "times_as_slow", c.Ratio, "messages", c.Recent.Messages, "rows", c.Recent.Rows, "seconds", c.Recent.Seconds, "for_seconds", c.For)
	case c.State == quarantine.Trusted:
		s.log.Info("an expert host is as fast as others again", "host", c.Host, "times_as_slow", c.Ratio)
	}
}

// count is for the metrics.
func (s *slowHosts) count() map[string]float64 {
	out := map[string]float64{quarantine.Avoided.String(): 0, quarantine.Tried.String(): 0}
	if states := s.states.Load(); states != nil {
		for _, state := range *states {
			out[state.String()]++
		}
	}
	return out
}

func (s *slowHosts) now() map[string]quarantine.State {
	if states := s.states.Load(); states != nil {
		return *states
	}
	return nil
}
