package top

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// silentTooLong is when a replica counts as gone: longer than it has for its siblings,
	// since a viewer may be far away. Who was never heard has neverHeard.
	silentTooLong = 2 * members.TTL
	neverHeard    = members.TTL
	// runs is how often a viewer notes that it runs. One that has not for stoodStill has heard nobody
	// meanwhile, and blames nobody for that.
	runs, stoodStill = 100 * time.Millisecond, time.Second
	// window is how far back rates look.
	window = 4 * time.Second
	// maxLooks bounds what is kept of a member: its renewals in window, and some.
	maxLooks = 64
	// maxMembers bounds the members that are known: more than any deployment has.
	maxMembers = 1 << 14
)

// roster follows the members of one model in their bucket, and knows by its own clock who
// of them lives: what the bucket held before may be long dead. It is safe for concurrent use.
type roster struct {
	mu    sync.Mutex
	began time.Time
	seen  map[string]*seen
}

// seen is what was heard of one member.
type seen struct {
	looks []look // the newest last
	heard time.Time
	lives bool // it was heard since the roster began
}

// look is what a member said at one time.
type look struct {
	at     time.Time
	member *pb.Member
}

func newRoster(now time.Time) *roster {
	return &roster{began: now, seen: map[string]*seen{}}
}

// hear takes in a renewal; fresh says that it was not there before.
func (r *roster) hear(m *pb.Member, fresh bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen[m.GetId()]
	if s == nil {
		if len(r.seen) >= maxMembers {
			return
		}
		s = &seen{}
		r.seen[m.GetId()] = s
	}
	if n := len(s.looks); n > 0 && m.GetUptimeSeconds() < s.looks[n-1].member.GetUptimeSeconds() {
		s.looks = nil // it was made anew
	}
	s.looks = append(s.looks, look{now, m})
	old := func(l look) bool { return now.Sub(l.at) > window }
	if s.looks = slices.DeleteFunc(s.looks, old); len(s.looks) > maxLooks {
		s.looks = slices.Delete(s.looks, 0, len(s.looks)-maxLooks)
	}
	s.heard, s.lives = now, s.lives || fresh
}

// erase takes out who has erased its key, as who leaves does. Whose key was erased by
// somebody else is back with its next renewal.
func (r *roster) erase(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, id)
}

// alive returns those who live, by id. At first those of the bucket count that were not heard
// yet.
func (r *roster) alive(now time.Time) []*seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*seen
	for _, id := range slices.Sorted(maps.Keys(r.seen)) {
		s := r.seen[id]
		since, limit := s.heard, silentTooLong
		if !s.lives {
			since, limit = r.began, neverHeard
		}
		if now.Sub(since) > limit {
			delete(r.seen, id)
			continue
		}
		out = append(out, &seen{looks: slices.Clone(s.looks), heard: s.heard, lives: s.lives})
	}
	return out
}

// settled reports whether it is known of everybody if he lives, and has said something twice,
// so that there are rates.
func (r *roster) settled(now time.Time) bool {
	for _, s := range r.alive(now) {
		if !s.lives || len(s.looks) < 2 {
			return false
		}
	}
	return now.Sub(r.began) >= members.Hearing
}

// forgive has nobody counted as silent for a time in which nobody could be heard.
func (r *roster) forgive(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if s.lives {
			s.heard = now
		}
	}
	if len(r.seen) > 0 {
		r.began = now
	}
}

// watch follows the bucket until ctx ends, or its consumer does. It returns when what the
// bucket held is known; ended is closed when nothing is followed any more.
func (r *roster) watch(ctx context.Context, js jetstream.JetStream, names schemas.Streams) (ended <-chan struct{}, err error) {
	bucket, err := js.KeyValue(ctx, names.Bucket("members"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("no replica has served model %q here under prefix %q; check --model, or start it with `switchyard up`",
			names.Subjects.Model, names.Subjects.Prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of live replicas: %w", err)
	}
	w, err := bucket.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("following the live replicas: %w", err)
	}
	done, begun := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = w.Stop() }() // fails without a connection only
		r.follow(ctx, w.Updates(), begun)
	}()
	select {
	case <-begun:
		return done, nil
	case <-done:
	case <-ctx.Done():
		<-done
	}
	return nil, fmt.Errorf("following the live replicas: %w", cause(ctx))
}

func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("their bucket is gone")
}

// follow takes updates in until there are no more, and closes begun when those are over that
// were there before.
func (r *roster) follow(ctx context.Context, updates <-chan jetstream.KeyValueEntry, begun chan<- struct{}) {
	fresh, last := false, time.Now()
	tick := time.NewTicker(runs)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now := time.Now(); now.Sub(last) > stoodStill {
				r.forgive(now)
			}
			last = time.Now()
		case e, open := <-updates:
			switch {
			case !open:
				return
			case e == nil:
				fresh = true
				close(begun)
			case e.Operation() != jetstream.KeyValuePut:
				r.erase(e.Key())
			default:
				if m := decode(e.Key(), e.Value()); m != nil {
					r.hear(m, fresh, time.Now())
				}
			}
		}
	}
}

// maxRecord bounds what is believed to be a member's.
const maxRecord = 64 << 10

// decode returns nil for what is no member's.
func decode(id string, body []byte) *pb.Member {
	m := &pb.Member{}
	if len(body) > maxRecord || proto.Unmarshal(body, m) != nil || m.GetId() != id || !schemas.IsReplicaID(id) {
		return nil
	}
	return m
}
