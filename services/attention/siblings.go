package attention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a replica that is killed has of the queue would wait there for
// sequenceAckWait. So each replica tells its siblings what it has, and looks after the
// one before it in the order of ids: when that has no connection any more, it gives
// its deliveries back, and whoever pulls goes on with them. A replica that was only
// disconnected finds its logs claimed, as after any other redelivery.

const (
	// tellEvery is how often changes are told, and tellAgain how often all is: to
	// siblings that have come since.
	tellEvery = 100 * time.Millisecond
	tellAgain = time.Second
	// maxTold bounds what one replica tells, and maxTellers how many are believed.
	// What is beyond waits for sequenceAckWait.
	maxTold    = 1024
	maxTellers = 1024
)

// siblings are the other attention replicas, as far as this one looks after them.
type siblings struct {
	self string
	back chan struct{} // holds a note when one that was gone is heard again

	mu sync.Mutex
	// told is what each has, by its id.
	told map[string][]string
	// gone are members that have no connection any more.
	gone map[string]bool
}

func newSiblings(self string) *siblings {
	return &siblings{self: self, back: make(chan struct{}, 1), told: map[string][]string{}, gone: map[string]bool{}}
}

// hear takes in what a sibling says that it has.
func (s *siblings) hear(who string, body []byte) error {
	h := &pb.Holdings{}
	if err := proto.Unmarshal(body, h); err != nil {
		return fmt.Errorf("%w: decoding what a replica has: %w", wire.ErrMalformed, err)
	}
	if n := len(h.Deliveries); n > maxTold || !schemas.IsReplicaID(who) {
		return fmt.Errorf("%w: %.64q says that it has %d deliveries; a replica tells of %d at most", wire.ErrMalformed, who, n, maxTold)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.told[who]; who == s.self || !known && len(s.told) >= maxTellers {
		return nil
	}
	s.told[who] = h.Deliveries
	if s.gone[who] {
		delete(s.gone, who)
		note(s.back)
	}
	return nil
}

// next is whom this replica looks after: the one before it among the members that are
// not gone, in a ring; "": nobody. It forgets those who are no members any more.
func (s *siblings) next(ids []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.told, func(id string, _ []string) bool { return !slices.Contains(ids, id) })
	maps.DeleteFunc(s.gone, func(id string, _ bool) bool { return !slices.Contains(ids, id) })
	before, last := "", ""
	for _, id := range ids {
		if id == s.self || s.gone[id] {
			continue
		}
		last = max(last, id)
		if id < s.self {
			before = max(before, id)
		}
	}
	if before != "" {
		return before
	}
	return last
}

// inherit takes out what a sibling had that is gone.
func (s *siblings) inherit(who string) (deliveries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[who] = true
	deliveries = s.told[who]
	delete(s.told, who)
	return deliveries
}

// onHoldings hears what a sibling has.
func (s *Service) onHoldings(m *nats.Msg) {
	if err := s.siblings.hear(schemas.LastToken(m.Subject), m.Data); err != nil {
		s.metrics.Refused.Inc()
	}
}

// present is members.View's part that says who is here.
type present interface {
	Changed() <-chan struct{}
	Snapshot() []*pb.Member
}

// lookAfter calls succeed with what a sibling had that is gone, until ctx ends. watch
// is liveness.Watcher's.
func (s *siblings) lookAfter(ctx context.Context, here present, watch func(id string) (<-chan struct{}, func()), succeed func(who string, deliveries []string)) {
	who, stop := "", func() {}
	defer func() { stop() }()
	for gone := (<-chan struct{})(nil); ; {
		changed := here.Changed()
		if next := s.next(attentionIDs(here.Snapshot())); next != who {
			stop()
			who, gone, stop = next, nil, func() {}
			if next != "" {
				gone, stop = watch(next)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.back:
		case <-gone:
			succeed(who, s.inherit(who))
			stop()
			who, gone, stop = "", nil, func() {} // one that is heard again at once is watched anew
		}
	}
}

func attentionIDs(all []*pb.Member) (ids []string) {
	for _, m := range members.OfService(all, "attention") {
		ids = append(ids, m.Id)
	}
	return ids
}

// succeed gives back what a sibling had.
func (s *Service) succeed(who string, deliveries []string) {
	var errs []error
	for _, d := range deliveries {
		errs = append(errs, s.queue.GiveBack(d))
	}
	s.d.Logger.Info("a replica is gone; what it had goes on elsewhere", "replica", who, "sequences", len(deliveries), "error", errors.Join(errs...))
}

// tellSiblings tells what this replica has, until ctx ends.
func (s *Service) tellSiblings(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var told uint64
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			changes := s.engine.keeper.changed()
			if !s.presence.Listens() || changes == told && now.Sub(at) < tellAgain {
				continue
			}
			h := &pb.Holdings{Deliveries: s.engine.keeper.oldest(maxTold, int(s.d.Conn.MaxPayload()/2))}
			if s.d.Conn.Send(ctx, s.d.Subjects.Holdings(s.id), h, nil) == nil { // else it is told soon
				told, at = changes, now
			}
		}
	}
}

// changed counts how often something was taken or settled.
func (k *keeper) changed() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changes
}

// oldest are the deliveries that have been here longest, as many as fit so many bytes.
func (k *keeper) oldest(most, bytes int) (deliveries []string) {
	const perDelivery = 4 // of the message, beside the name
	all := k.all()
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.turn, b.turn) })
	for _, h := range all[:min(most, len(all))] {
		name := h.AckSubject()
		if bytes -= len(name) + perDelivery; bytes < 0 {
			break
		}
		deliveries = append(deliveries, name)
	}
	return deliveries
}
