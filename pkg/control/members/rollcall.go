package members

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The roll call tells replicas from records that only claim to be one. The
// planner's host puts a new number, the call, into each of its renewals;
// everybody answers the newest call in the next own one, with a number that
// follows from the call and the own id: a copy of another's record answers
// nothing. Who has never answered is no member, and who stops answering is none
// any more:
//
//	unknown ──answers──▶ member ──no answer for answerWithin, or silent──▶ unknown
//
// Without a planner nobody calls, and every record counts, as it does for a
// view that has just begun.
const (
	// callFor is how long after a call answers are wanted.
	callFor = 5 * time.Second
	// validFor is how long a call may be answered: each of the two renewals may
	// come as late as a member may be silent.
	validFor = 2*TTL + time.Second
	// answerWithin is how long a member may stay without a valid answer.
	answerWithin = 3 * time.Second
	// maxCalls is far more than are made in validFor. More are somebody's noise,
	// with which answers mean nothing.
	maxCalls = 256
)

// calls reports whether the planner may be among a service's replicas.
func calls(service string) bool { return service == "expert" || service == "scaler" }

// rollCall is a view's side of it; the view's lock guards all but newest.
type rollCall struct {
	calls  map[uint64]time.Duration // age of each
	last   time.Duration            // since the last one
	newest atomic.Uint64            // what it answers
	// asked and newcomers hold one note each: answer at once; an unknown
	// record has no valid answer.
	asked, newcomers chan struct{}
}

func newRollCall() rollCall {
	return rollCall{
		calls: map[uint64]time.Duration{}, last: callFor,
		asked: make(chan struct{}, 1), newcomers: make(chan struct{}, 1),
	}
}

// Answer returns what a replica of this id says to the newest call in its own
// renewal, 0 if none was heard.
func (v *View) Answer(id string) uint64 {
	if call := v.roll.newest.Load(); call != 0 {
		return answerOf(call, id)
	}
	return 0
}

func answerOf(call uint64, id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, call))
	return h.Sum64()
}

// answers reports whether a record answers a call that is valid; v.mu is held.
func (v *View) answers(m *pb.Member) bool {
	if m.GetAnswer() == 0 {
		return false
	}
	for call := range v.roll.calls {
		if answerOf(call, m.GetId()) == m.GetAnswer() {
			return true
		}
	}
	return false
}

// Asked gets a note when this replica should not wait with its answer.
func (v *View) Asked() <-chan struct{} { return v.roll.asked }

// Newcomers gets a note when somebody is heard who has not answered: a new
// call finds out sooner who it is.
func (v *View) Newcomers() <-chan struct{} { return v.roll.newcomers }

// Answered lists the members of a service that have answered a call, and says
// whether those are all.
func (v *View) Answered(service string) (those []*pb.Member, all bool) {
	answered := v.answered()
	everybody := OfService(v.Snapshot(), service)
	for _, m := range everybody {
		if answered[m.GetId()] {
			those = append(those, m)
		}
	}
	return those, len(those) == len(everybody)
}

func (v *View) answered() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids := make(map[string]bool, len(v.members))
	for id, e := range v.members {
		ids[id] = e.answered
	}
	return ids
}

// wanted reports whether only who answers is a member; v.mu is held.
func (v *View) wanted() bool {
	if v.roll.last >= callFor || len(v.roll.calls) > maxCalls {
		return false
	}
	for _, e := range v.members {
		if calls(e.member.GetService()) {
			return true
		}
	}
	return false // nobody is left who could call
}

// admit makes the entry of a renewal, nil for who is unknown; v.mu is held.
func (v *View) admit(m *pb.Member, before *entry) *entry {
	valid := v.answers(m)
	e := &entry{member: m, answered: valid}
	switch {
	case before == nil && !valid && v.wanted():
		pause.Wake(v.roll.newcomers)
		return nil
	case before != nil && !valid:
		e.answered, e.unanswered = before.answered, before.unanswered
	}
	return e
}

// hear takes a member's call; v.mu is held.
func (v *View) hear(m *pb.Member) {
	call := m.GetCall()
	if call == 0 || !calls(m.GetService()) {
		return
	}
	if _, again := v.roll.calls[call]; again || len(v.roll.calls) > maxCalls {
		return
	}
	v.roll.calls[call] = 0
	v.roll.newest.Store(call)
	if v.roll.last >= 2*Interval { // a first call, or a new planner's
		pause.Wake(v.roll.asked)
	}
	v.roll.last = 0
}

// passRoll ages the calls and says who has not answered for too long; v.mu is held.
func (v *View) passRoll(passed time.Duration) (unresponsive []string) {
	v.roll.last += passed
	maps.DeleteFunc(v.roll.calls, func(call uint64, age time.Duration) bool {
		v.roll.calls[call] = age + passed
		return age+passed >= validFor
	})
	wanted := v.wanted()
	for id, e := range v.members {
		if !wanted {
			e.unanswered = 0
		} else if e.unanswered += passed; e.unanswered >= answerWithin {
			unresponsive = append(unresponsive, id)
		}
	}
	return unresponsive
}

const (
	// freshFor is the silence up to which a member surely lives: a renewal and a half.
	freshFor = Interval + Interval/2
	// doubt is how long a service is doubted after somebody of it did not
	// answer: by then who hangs is quiet.
	doubt = QuietAfter
	// missFor is longer than a server keeps the connection of a peer that does
	// not answer: three pings of two minutes by default.
	missFor = 10 * time.Minute
	// maxMissing bounds the missing that are remembered; one is enough for doubt.
	maxMissing = 16
)

// missed is a member that went without a farewell. Its connection may be open
// still, and the server may go on giving it what it has asked for.
type missed struct {
	id, service string
	ago         time.Duration
}

// found forgets a missing member that is heard again or says farewell; v.mu is held.
func (v *View) found(id string) {
	v.missing = slices.DeleteFunc(v.missing, func(m missed) bool { return m.id == id })
}

// forget drops those that have been missing for so long that no server keeps
// anything for them; v.mu is held.
func (v *View) forget(passed time.Duration) {
	for i := range v.missing {
		v.missing[i].ago += passed
	}
	v.missing = slices.DeleteFunc(v.missing, func(m missed) bool { return m.ago >= missFor })
}

// quieted tells the roster of a member that has just fallen silent; v.mu is held.
func (v *View) quieted(m *pb.Member) {
	for _, r := range v.rosters {
		if r.service == m.GetService() {
			r.silences.Add(1)
		}
	}
}

// judge says of each roster whether somebody of it is quiet or missing; v.mu is held.
func (v *View) judge() {
	for _, r := range v.rosters {
		absent := slices.ContainsFunc(v.missing, func(m missed) bool { return m.service == r.service })
		for _, e := range v.members {
			absent = absent || e.silent >= QuietAfter && e.member.GetService() == r.service
		}
		r.absent.Store(absent)
	}
}

// Roster says how the replicas of a service are best addressed: as a group
// while all of them are heard, and by name while one may hang. A server knows
// of no hang: it goes on giving a hung replica what it has asked for, and in a
// queue group its share of everything.
type Roster struct {
	view     *View
	service  string
	absent   atomic.Bool               // somebody is quiet or missing
	doubted  atomic.Pointer[time.Time] // until then; nil: never
	silences atomic.Uint64
}

// Roster returns the roster of one service.
func (v *View) Roster(service string) *Roster {
	r := &Roster{view: v, service: service}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rosters = append(v.rosters, r)
	return r
}

// Doubt says that some replica did not answer. Until the members tell which
// one hangs, the roster is not steady.
func (r *Roster) Doubt() {
	until := time.Now().Add(doubt)
	r.doubted.Store(&until)
}

// Steady says that no replica is known to hang, so that any of them may get a message.
func (r *Roster) Steady() bool {
	if r.absent.Load() {
		return false
	}
	until := r.doubted.Load()
	return until == nil || !time.Now().Before(*until)
}

// Silences counts how often a replica has fallen silent.
func (r *Roster) Silences() uint64 { return r.silences.Load() }

// Heard lists the replicas that surely live, the one that was heard last first.
func (r *Roster) Heard() []*pb.Member {
	r.view.mu.Lock()
	defer r.view.mu.Unlock()
	var fresh []*entry
	for _, e := range r.view.members {
		if e.member.GetService() == r.service && e.silent < freshFor {
			fresh = append(fresh, e)
		}
	}
	slices.SortFunc(fresh, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.silent, b.silent), cmp.Compare(a.member.GetId(), b.member.GetId()))
	})
	out := make([]*pb.Member, len(fresh))
	for i, e := range fresh {
		out[i] = e.member
	}
	return out
}
