package members

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// tick is how often silence is judged.
	tick = 50 * time.Millisecond
	// maxTick is the most that one tick counts: a watcher that was suspended
	// heard nobody and must not blame them.
	maxTick = 2 * tick
)

// View is a live view of the members.
type View struct {
	conn *bus.Conn
	stop func()

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	members  map[string]*entry
	missing  []missed // went without a farewell, the newest last
	rosters  []*Roster
	roll     rollCall
	listened time.Duration

	kind       *schemas.Kind // nil: members of every kind count
	otherKinds map[string]*entry
	told       Told
	dropped    map[string]bool // ids whose records were
}

// Told is what a view tells; each may be nil, and returns at once.
type Told struct {
	// Strange is told of each member of another kind when it comes.
	Strange func(*pb.Member)
	// Dropped is told of each record that does not count, and whether it is the first of its id.
	Dropped func(id string, why error, first bool)
}

type entry struct {
	member *pb.Member
	// silent counts only while this watcher is connected.
	silent time.Duration
	// answered says that it has answered a call, unanswered for how long it has not.
	answered   bool
	unanswered time.Duration
}

// Watch follows the members until ctx ends. It starts empty and has everybody
// after one Interval: what the bucket holds might be long dead.
// kv is from bus.EnsureBucket.
func Watch(ctx context.Context, kv jetstream.KeyValue) (*View, error) {
	return watch(ctx, kv, nil, Told{})
}

// WatchKind follows the members of one kind, and tells of what is not.
func WatchKind(ctx context.Context, kv jetstream.KeyValue, kind schemas.Kind, told Told) (*View, error) {
	return watch(ctx, kv, &kind, told)
}

func watch(ctx context.Context, kv jetstream.KeyValue, kind *schemas.Kind, told Told) (*View, error) {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return nil, err
	}
	v := &View{
		conn: b.Conn(), changed: make(chan struct{}), members: map[string]*entry{},
		roll: newRollCall(), kind: kind, otherKinds: map[string]*entry{}, told: told, dropped: map[string]bool{},
	}
	if v.stop, err = v.conn.FollowKeys(b.Bucket(), ">", v.receive); err != nil {
		return nil, err
	}
	go v.age(ctx)
	return v, nil
}

// List returns the members after listening for as long as it takes to hear them
// all, with a connection that held for so long: without one nobody is heard, and
// that does not say that nobody is here.
func List(ctx context.Context, kv jetstream.KeyValue) ([]*pb.Member, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v, err := Watch(ctx, kv)
	if err != nil {
		return nil, err
	}
	for heard := false; !heard; {
		gap := v.conn.Gap()
		select {
		case <-time.After(Hearing):
			heard = !gap()
		case <-v.conn.Closed():
			return nil, fmt.Errorf("listening for members: %w", v.conn.Live())
		case <-ctx.Done():
			return nil, fmt.Errorf("listening for members: %w", ctx.Err())
		}
	}
	return v.Snapshot(), nil
}

// OfService returns those of one service.
func OfService(all []*pb.Member, service string) (out []*pb.Member) {
	for _, m := range all {
		if m.GetService() == service {
			out = append(out, m)
		}
	}
	return out
}

// Snapshot returns the members, by id. They are not to be changed.
func (v *View) Snapshot() []*pb.Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return byID(v.members)
}

func byID(of map[string]*entry) []*pb.Member {
	out := make([]*pb.Member, 0, len(of))
	for _, e := range of {
		out = append(out, e.member)
	}
	slices.SortFunc(out, func(a, b *pb.Member) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return out
}

// Silent is for how long nothing was heard of a member, as far as that could be; here is
// false for who is none.
func (v *View) Silent(id string) (silent time.Duration, here bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.members[id]
	if e == nil {
		return 0, false
	}
	return e.silent, true
}

// Changed returns a channel that is closed when members come, fall silent, go
// or say something new; changed stats do not count. Get it before the Snapshot that
// is to be renewed.
func (v *View) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// Follow calls fn with the members, and again at each change, until ctx ends.
func (v *View) Follow(ctx context.Context, fn func([]*pb.Member)) {
	for {
		changed := v.Changed() // before the Snapshot: what comes between wakes us
		fn(v.Snapshot())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (v *View) receive(id string, value []byte, deleted bool) {
	if deleted {
		v.remove(id)
		return
	}
	switch member, err := decode(id, value); {
	case err != nil:
		v.drop(id, err)
	case v.kind == nil || schemas.KindOf(member).Joins(*v.kind):
		v.put(member)
	case v.meet(member):
		v.told.Strange(member)
	}
}

// Bounds of a record.
const (
	maxRecord = 64 << 10
	maxName   = schemas.MaxModelToken
	maxClass  = 256
	maxStats  = 256
	maxDevice = 512 // it has the name of a file
	maxHost   = 253
	maxWords  = 2048 // of why it is not ready
)

// decode refuses what is not a member's: anybody with the permission can write here.
func decode(id string, value []byte) (*pb.Member, error) {
	m := &pb.Member{}
	if len(value) > maxRecord || proto.Unmarshal(value, m) != nil || m.GetId() != id || !schemas.IsReplicaID(id) {
		return nil, fmt.Errorf("its %d bytes are no record of a replica of this id", len(value))
	}
	for _, of := range []struct {
		field     string
		has, most int
	}{
		{"service", len(m.Service), maxName},
		{"model", len(m.Model), maxName},
		{"numeric_class", len(m.NumericClass), maxClass},
		{"wire", len(m.Wire), maxName},
		{"hops", len(m.Hops), maxName},
		{"version", len(m.Version), maxName},
		{"stats", len(m.Stats), maxStats},
		{"device", len(m.Device), maxDevice},
		{"host", len(m.Host), maxHost},
		{"trouble", len(m.Trouble), maxWords},
	} {
		if of.has > of.most {
			return nil, fmt.Errorf("its %s is of length %d; at most %d may be", of.field, of.has, of.most)
		}
	}
	return m, nil
}

// drop tells of a record that does not count, and of each id once: it comes again with every renewal.
func (v *View) drop(id string, why error) {
	v.mu.Lock()
	isNew := len(v.dropped) < maxOtherKinds && !v.dropped[id]
	if isNew {
		v.dropped[id] = true
	}
	v.mu.Unlock()
	if v.told.Dropped != nil {
		v.told.Dropped(id, why, isNew)
	}
}

func (v *View) put(m *pb.Member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.members[m.GetId()]
	now := v.admit(m, before)
	if now == nil {
		return
	}
	v.members[m.GetId()] = now
	v.hear(m)
	v.found(m.GetId())
	if before == nil || !same(before.member, m) || before.answered != now.answered {
		v.notify()
	}
}

// remove takes out who has said that it leaves. A key that somebody else has
// erased comes back with the next renewal, or expires.
func (v *View) remove(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.members[id]; e != nil && e.member.GetDraining() {
		v.found(id)
		delete(v.members, id)
		v.notify()
	}
}

// Synced says that the view has listened for so long that it has heard all
// who are here.
func (v *View) Synced() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listened >= Hearing
}

// same compares everything but the stats, which change all the time.
func same(a, b *pb.Member) bool {
	return a.GetService() == b.GetService() && a.GetModel() == b.GetModel() && a.GetModelHash() == b.GetModelHash() &&
		a.GetNumericClass() == b.GetNumericClass() && a.GetWire() == b.GetWire() && a.GetHops() == b.GetHops() &&
		a.GetReady() == b.GetReady() && a.GetDraining() == b.GetDraining() &&
		a.GetMemoryBudgetBytes() == b.GetMemoryBudgetBytes()
}

// notify wakes who waits; v.mu is held.
func (v *View) notify() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *View) age(ctx context.Context) {
	defer v.stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-v.conn.Closed():
			return
		case <-ticker.C:
			now := time.Now()
			v.listen(now.Sub(last))
			last = now
		}
	}
}

// listen counts the time that has passed, if anybody could be heard meanwhile.
func (v *View) listen(passed time.Duration) {
	if v.conn.Hears() {
		v.expire(min(passed, maxTick))
	}
}

// expire removes who has been silent for TTL.
func (v *View) expire(passed time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listened += passed
	for _, id := range v.passRoll(passed) {
		delete(v.members, id)
		v.notify()
	}
	for id, e := range v.members {
		before := e.silent
		e.silent += passed
		if before < QuietAfter && e.silent >= QuietAfter {
			v.quieted(e.member)
			v.notify()
		}
		if e.silent >= TTL {
			delete(v.members, id)
			if len(v.missing) == maxMissing {
				v.missing = slices.Delete(v.missing, 0, 1)
			}
			v.missing = append(v.missing, missed{id: e.member.GetId(), service: e.member.GetService()})
			v.notify()
		}
	}
	v.ageOtherKinds(passed)
	v.forget(passed)
	v.judge()
}

// MayDegrade reports whether a brownout may come: an attention replica can ask for one, or an expert
// host can load united experts.
func MayDegrade(all []*pb.Member) bool {
	return slices.ContainsFunc(OfService(all, "attention"), func(m *pb.Member) bool { return m.Stats[Browns] > 0 }) ||
		slices.ContainsFunc(OfService(all, "expert"), func(m *pb.Member) bool { return len(m.United) > 0 })
}

// Members of another kind speak another version, or serve another
// model, or compute other bits, or send tensors otherwise, under the same name. No replica of this
// kind works with them; they are known so that what is theirs can go back to them, and each be named.

// maxOtherKinds bounds those that are known.
const maxOtherKinds = 64

// OtherKinds lists them by id, as far as they are known.
func (v *View) OtherKinds() []*pb.Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return byID(v.otherKinds)
}

// meet takes in a record of another kind, and reports whether somebody is to be told of it.
func (v *View) meet(m *pb.Member) (isNew bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.otherKinds[m.GetId()] != nil
	switch {
	case m.GetDraining():
		delete(v.otherKinds, m.GetId())
		return false
	case !known && len(v.otherKinds) == maxOtherKinds:
		return false
	}
	v.otherKinds[m.GetId()] = &entry{member: m}
	return !known && v.told.Strange != nil
}

// ageOtherKinds forgets who has been silent for TTL; v.mu is held.
func (v *View) ageOtherKinds(passed time.Duration) {
	maps.DeleteFunc(v.otherKinds, func(_ string, e *entry) bool {
		e.silent += passed
		return e.silent >= TTL
	})
}
