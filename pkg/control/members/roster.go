package members

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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

// miss remembers a member that has expired; v.mu is held.
func (v *View) miss(m *pb.Member) {
	if len(v.missing) == maxMissing {
		v.missing = slices.Delete(v.missing, 0, 1)
	}
	v.missing = append(v.missing, missed{id: m.GetId(), service: m.GetService()})
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
