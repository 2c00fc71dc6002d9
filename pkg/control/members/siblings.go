package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// tellEvery is how often changes are told, and tellAgain how often all is: to
	// siblings that have come since.
	tellEvery = 100 * time.Millisecond
	tellAgain = time.Second
	// maxTold bounds what one replica tells, and maxTellers how many are believed.
	// What is beyond waits for AckWait.
	maxTold    = 1024
	maxTellers = 1024
)

// SiblingSettings are what code sets.
type SiblingSettings struct {
	// ID and Service are the replica's.
	ID, Service string
	Members     SiblingMembers
	Queue       SiblingQueue
	Holdings    *Holdings
	// Watch looks for a replica, as LivenessWatcher does.
	Watch func(id string) (gone <-chan struct{}, stop func())
	// Listens reports whether others can look for this replica.
	Listens func() bool
	// Connected reports whether there is a server.
	Connected func() bool
	// Send tells all siblings what this replica has.
	Send func(has *pb.Holdings) error
	// MaxBytes is what may be told at once.
	MaxBytes func() int64
	// Refused counts what nobody can have told.
	Refused func()
	Logger  *slog.Logger
}

// SiblingMembers is members.View's part that says who is here.
type SiblingMembers interface {
	Changed() <-chan struct{}
	Snapshot() []*pb.Member
	Silent(id string) (silent time.Duration, here bool)
}

// SiblingQueue is bus.Queue's part for what others took.
type SiblingQueue interface {
	GiveBack(delivery string) error
	// Place is where in its stream a delivery's message is.
	Place(delivery string) (uint64, error)
}

// Siblings hand on what a replica had of a work queue when it is gone, or hangs.
// It would wait there for the queue's AckWait otherwise. So each replica tells the others
// of its service what it has, and looks after the one before it in the order of ids: when
// that has no connection any more (LivenessWatcher), or hangs, it gives its
// deliveries back, and the siblings that pull go on with them. One that was only disconnected
// finds that others have what it had, as after any other redelivery.
//
// What a replica has that lives can come to another one all the same: a server that was
// away delivers again what could not be renewed. Leave says when that is so.
type Siblings struct {
	s    SiblingSettings
	back chan struct{} // holds a note when one that was gone is heard again

	mu sync.Mutex
	// told is what each has, by its id: deliveries by their place in the stream.
	told map[string]map[uint64]string
	// gone are members that have no connection any more.
	gone map[string]bool
	// deaf is when this replica heard nobody last, itself included.
	deaf time.Time
}

// NewSiblings returns siblings of which nothing is known.
func NewSiblings(s SiblingSettings) *Siblings {
	return &Siblings{s: s, back: make(chan struct{}, 1), told: map[string]map[uint64]string{}, gone: map[string]bool{}}
}

// OnTold takes in what a sibling tells, whose id ends the subject.
func (s *Siblings) OnTold(m *nats.Msg) {
	if err := s.take(schemas.LastToken(m.Subject), m.Data); err != nil {
		s.s.Refused()
		s.s.Logger.Debug("what a sibling tells was refused", "error", err)
	}
}

func (s *Siblings) take(who string, body []byte) error {
	if !schemas.IsReplicaID(who) {
		return fmt.Errorf("%w: %.64q, who says what it has, is no replica's id", wire.ErrMalformed, who)
	}
	h := &pb.Holdings{}
	if err := proto.Unmarshal(body, h); err != nil {
		return fmt.Errorf("%w: decoding what %s has: %w", wire.ErrMalformed, who, err)
	}
	if n := len(h.Deliveries); n > maxTold {
		return fmt.Errorf("%w: %s says that it has %d deliveries; a replica tells of %d at most", wire.ErrMalformed, who, n, maxTold)
	}
	has := make(map[uint64]string, len(h.Deliveries))
	for _, d := range h.Deliveries {
		place, err := s.s.Queue.Place(d)
		if err != nil {
			return fmt.Errorf("%w: %s says what it has: %w", wire.ErrMalformed, who, err)
		}
		has[place] = d
	}
	s.hear(who, has)
	return nil
}

func (s *Siblings) hear(who string, has map[uint64]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.told[who]; who == s.s.ID || !known && len(s.told) >= maxTellers {
		return
	}
	s.told[who] = has
	if s.gone[who] {
		delete(s.gone, who)
		pause.Wake(s.back)
	}
}

// next is whom this replica looks after: the one before it among the members that are
// not gone, in a ring; "": nobody. Unless this one hears nobody, it forgets those who
// are no members any more.
func (s *Siblings) next(ids []string, deaf bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !deaf {
		maps.DeleteFunc(s.told, func(id string, _ map[uint64]string) bool { return !slices.Contains(ids, id) })
		maps.DeleteFunc(s.gone, func(id string, _ bool) bool { return !slices.Contains(ids, id) })
	}
	before, last := "", ""
	for _, id := range ids {
		if id == s.s.ID || s.gone[id] {
			continue
		}
		last = max(last, id)
		if id < s.s.ID {
			before = max(before, id)
		}
	}
	if before != "" {
		return before
	}
	return last
}

// inherit takes out what a sibling had when it is gone, and nobody looks after it any more.
func (s *Siblings) inherit(who string) []string {
	s.mu.Lock()
	s.gone[who] = true
	s.mu.Unlock()
	return s.drop(who)
}

// drop takes out what a sibling had, in the order of the stream. One that hangs may tell
// of more when it wakes.
func (s *Siblings) drop(who string) (deliveries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, place := range slices.Sorted(maps.Keys(s.told[who])) {
		deliveries = append(deliveries, s.told[who][place])
	}
	delete(s.told, who)
	return deliveries
}

// Run tells what this replica has, and looks after its sibling, until ctx ends.
func (s *Siblings) Run(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() { s.keepTelling(ctx) })
	s.lookAfter(ctx)
}

// lookAfter gives back what a sibling had when it is gone, or hangs, until ctx ends.
func (s *Siblings) lookAfter(ctx context.Context) {
	who, stop := "", func() {}
	defer func() { stop() }()
	for gone := (<-chan struct{})(nil); ; {
		changed := s.s.Members.Changed()
		if next := s.next(s.ids(), s.hearsNobody()); next != who {
			stop()
			who, gone, stop = next, nil, func() {}
			if next != "" {
				gone, stop = s.s.Watch(next)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if s.hangs(who) {
				s.succeed(who, "a replica hangs; what it had goes on elsewhere", s.drop)
			}
		case <-s.back:
		case <-gone:
			s.succeed(who, "a replica is gone; what it had goes on elsewhere", s.inherit)
			stop()
			who, gone, stop = "", nil, func() {} // one that is heard again at once is watched anew
		}
	}
}

func (s *Siblings) ids() (ids []string) {
	for _, m := range OfService(s.s.Members.Snapshot(), s.s.Service) {
		ids = append(ids, m.Id)
	}
	return ids
}

// hangs says that a sibling is silent while this replica hears itself: neither the server
// nor this machine is what hangs.
func (s *Siblings) hangs(who string) bool {
	silent, here := s.s.Members.Silent(who)
	return here && silent >= QuietAfter && !s.hearsNobody()
}

// succeed gives back what a sibling had, as it is taken out of what was told.
func (s *Siblings) succeed(who, why string, takeOut func(who string) []string) {
	deliveries := takeOut(who)
	if len(deliveries) == 0 {
		return
	}
	var errs []error
	for _, d := range deliveries {
		errs = append(errs, s.s.Queue.GiveBack(d))
	}
	s.s.Logger.Info(why, "replica", who, "deliveries", len(deliveries), "error", errors.Join(errs...))
}

// keepTelling tells what this replica has, until ctx ends.
func (s *Siblings) keepTelling(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var told uint64
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.listen(now)
			if changes := s.s.Holdings.changed(); (changes != told || now.Sub(at) >= tellAgain) && s.Tell() {
				told, at = changes, now
			}
		}
	}
}

// Tell tells at once what this replica has, and reports whether it could: who settles things
// quickly would be gone with what nobody knows of.
func (s *Siblings) Tell() bool {
	return s.s.Listens() && s.s.Send(&pb.Holdings{Deliveries: s.s.Holdings.oldest(maxTold, int(s.s.MaxBytes()/2))}) == nil
}

// Holdings are the deliveries that a replica has, by the subjects on which they are settled.
type Holdings struct {
	mu      sync.Mutex
	turns   map[string]uint64 // grow with each that is added
	changes uint64
}

// NewHoldings returns none.
func NewHoldings() *Holdings { return &Holdings{turns: map[string]uint64{}} }

// Add notes a delivery; one that is known stays as it is.
func (h *Holdings) Add(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.turns[delivery]; !known {
		h.changes++
		h.turns[delivery] = h.changes
	}
}

// Remove forgets a delivery that is settled, or not renewed any more.
func (h *Holdings) Remove(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.turns[delivery]; known {
		h.changes++
		delete(h.turns, delivery)
	}
}

func (h *Holdings) changed() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// oldest returns the deliveries that have been here longest, as many as fit so many bytes.
func (h *Holdings) oldest(most, bytes int) (deliveries []string) {
	const perDelivery = 4 // of the message, beside the name
	h.mu.Lock()
	turns := maps.Clone(h.turns)
	h.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(turns), func(a, b string) int { return cmp.Compare(turns[a], turns[b]) })
	for _, name := range all[:min(most, len(all))] {
		if bytes -= len(name) + perDelivery; bytes < 0 {
			break
		}
		deliveries = append(deliveries, name)
	}
	return deliveries
}

const (
	// fresh is the silence up to which a replica surely lives: a renewal and a half.
	fresh = Interval * 3 / 2
	// suspectFor is how long after the server was away work may come again that its
	// owner has.
	suspectFor = 2 * time.Second
	// leaveFor is when work comes again that was left to its owner, unless that renews
	// it by then; askAgain is when it does while nobody is heard.
	leaveFor = 500 * time.Millisecond
	askAgain = 200 * time.Millisecond
)

// Leave says for how long work that came again, by its place in the stream, is to be left
// to the sibling that has it: it could renew nothing while the server was away. 0: it is
// for this replica.
func (s *Siblings) Leave(place uint64, now time.Time) time.Duration {
	nobody := s.hearsNobody()
	owner := s.owner(place, now, nobody)
	if owner == "" {
		return 0
	}
	silent, here := s.s.Members.Silent(owner)
	switch {
	case here && silent < fresh:
		return leaveFor
	case nobody:
		return askAgain
	}
	return 0
}

// owner returns the sibling that said it has a message, if the server was away a moment ago.
func (s *Siblings) owner(place uint64, now time.Time, nobody bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !nobody && now.Sub(s.deaf) > suspectFor {
		return ""
	}
	for who, has := range s.told {
		if _, ok := has[place]; ok {
			return who
		}
	}
	return ""
}

// hearsNobody says that this replica does not even hear itself.
func (s *Siblings) hearsNobody() bool {
	silent, here := s.s.Members.Silent(s.s.ID)
	return !s.s.Connected() || !here || silent >= fresh
}

// listen notes when nobody is heard.
func (s *Siblings) listen(now time.Time) {
	if !s.hearsNobody() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = now
}
