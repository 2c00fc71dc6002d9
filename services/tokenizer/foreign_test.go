package tokenizer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// besides is a deployment of another model under the same name on a rig's server. That is
// refused where the others are heard in time, and comes about where they were suspended.
func (r *rig) besides() *rig {
	r.t.Helper()
	m := *r.d.Model
	m.Hash = strings.Repeat("7", len(m.Hash))
	other := &rig{t: r.t, srv: r.srv, url: r.url, nc: r.nc, model: &m, bounds: r.bounds}
	other.deploy("attention-2")
	return other
}

// meet waits until a replica knows of those of another kind.
func (r *rig) meet(all ...*Service) {
	r.t.Helper()
	for _, s := range all {
		r.eventually("the other kind is known", func() bool { return len(s.view.Strangers()) >= 2 })
	}
}

// taker is who has accepted a request.
func taker(t *testing.T, request string, all ...*rig) (found *rig) {
	t.Helper()
	all[0].eventually("the acceptance of "+request, func() bool {
		for _, r := range all {
			if _, err := r.log.Opening(r.ctx(), request); err == nil {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// Two kinds run side by side: whoever takes a prompt in, its producer gets the answer,
// also a second time, and nobody else touches it.
func TestTwoKinds(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	theirs := ours.besides()
	replicas := []*Service{ours.replica(), theirs.replica()}
	ours.meet(replicas...)
	taken := map[*rig]int{}
	for i := 0; len(taken) < 2 || i < 4; i++ {
		request := fmt.Sprint("r", i)
		got := ours.begin(request, 3)
		by := taker(t, request, ours, theirs)
		taken[by]++
		w := by.claim(request)
		by.append(w, token(0), token(1))
		again := ours.inbox()
		ours.send(ours.d.Subjects.Replay(), again.subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
		repeat := ours.begin(request, 3)
		ours.eventually("two chunks for three readers", func() bool {
			return len(got.chunks()) >= 2 && len(again.chunks()) >= 2 && len(repeat.chunks()) >= 2
		})
		by.append(w, token(2), ending("length"))
		for _, reader := range []*reader{got, again, repeat} {
			reader.whole(3, "length")
		}
	}
	for _, s := range replicas {
		ours.eventually(s.id+" has all shards", func() bool { return s.shards.count() == schemas.LogShards })
	}
}

// The next owner of a shard leaves alone what another kind has under way in it, and what
// was there before counts for nobody.
func TestTakeOverAmongKinds(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	theirs := ours.besides()
	w := theirs.has("theirs", "")
	theirs.append(w, token(0), token(1))
	s := New(ours.d, Config{MaxQueued: DefaultMaxQueued})
	ours.served(s)
	ours.start(s)
	for i := range 3 {
		theirs.append(w, token(2+i))
		ours.answer("theirs", i)
	}
	theirs.append(w, ending("length"))
	if end := theirs.terminal("theirs"); end.GetFinishReason() != "length" {
		t.Errorf("it ended by %v", end)
	}
	if n := s.reservations.Announced(); n < 0 {
		t.Errorf("%d bytes are announced", n)
	}
}

// foreignEnds are the ways in which a request of another kind may end.
var foreignEnds = map[string]*pb.Record{
	"stop": ending("stop"), "length": ending("length"), "cancelled": ending("cancelled"),
	"error": {Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "internal"}}}},
}

// The owner of a shard lets a request of another kind go when it ends.
func TestForeignRequestsAreLetGo(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	theirs := ours.besides()
	const shard = 0
	for reason, end := range foreignEnds {
		theirs.ended(inShard(shard, reason), end)
	}
	last, err := ours.d.Conn.State(ours.ctx(), ours.d.Streams.Tokens().Name)
	if err != nil {
		t.Fatal(err)
	}
	s := New(ours.d, Config{MaxQueued: DefaultMaxQueued})
	sh := &ownedShard{s: s, shard: shard, requests: map[string]*served{}}
	owned := make(chan *lease.Held, 1)
	stop := ours.run(func(ctx context.Context) error {
		return lease.Hold(ctx, ours.d.Leases, s.shardLease(shard), s.id, lease.Options{}, func(ctx context.Context, held *lease.Held) error {
			sh.held = held
			owned <- held
			return sh.follow(ctx)
		})
	})
	held := <-owned
	ours.eventually("all is taken", func() bool { return held.Position().Sequence == last.Last })
	stop()
	for request := range sh.requests {
		t.Errorf("%s is kept", request)
	}
}

// inShard is an id whose log is in a shard.
func inShard(shard int, prefix string) (request string) {
	request = prefix
	for n := 0; schemas.ShardOf(request) != shard; n++ {
		request = fmt.Sprint(prefix, "-", n)
	}
	return request
}

// ended is a request that a rig's kind has accepted, and that has ended.
func (r *rig) ended(request string, end *pb.Record) {
	r.t.Helper()
	w := r.has(request, "")
	for i := range 5 {
		r.append(w, token(i))
	}
	r.append(w, proto.CloneOf(end)) // the log writes into it, and other tests end theirs with it
}

// has is a request of 5 tokens that a rig's kind has accepted and claimed.
func (r *rig) has(request, reply string) *tokenlog.Writer {
	r.t.Helper()
	accept := &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: r.d.Identity.Model}, ReplyTo: reply,
		Encoding: pb.Encoding_ENCODING_JSON, PromptSequence: 99, PromptTokens: 2, MaxTokens: 5,
	}
	if _, err := r.log.Accept(r.ctx(), request, accept); err != nil {
		r.t.Fatal(err)
	}
	return r.claim(request)
}

// served seems to have had owners of all shards that have delivered everything.
func (r *rig) served(s *Service) {
	r.t.Helper()
	now, err := r.d.Conn.State(r.ctx(), r.d.Streams.Tokens().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	value, err := proto.Marshal(&pb.Lease{Epoch: 1, Position: now.Last, Incarnation: now.Incarnation})
	if err != nil {
		r.t.Fatal(err)
	}
	for shard := range schemas.LogShards {
		if _, err := r.d.Leases.Put(r.ctx(), s.shardLease(shard), value); err != nil {
			r.t.Fatal(err)
		}
	}
}

// answer asks for an answer whose log is in the shard of another request, and has it.
func (r *rig) answer(beside string, i int) {
	r.t.Helper()
	request := inShard(schemas.ShardOf(beside), fmt.Sprint("beside-", i))
	got := r.begin(request, 1)
	r.append(r.claim(request), token(0), ending("length"))
	got.whole(1, "length")
}

// Who asks for what nobody knows is told how long anything is known.
func TestUnknownIsKeptForLogAge(t *testing.T) {
	t.Parallel()
	r := newBoundedRig(t, bounds{logAge: 7 * time.Minute}, 1)
	got := r.inbox()
	r.send(r.d.Subjects.Replay(), got.subject, []byte(`{"request_id":"nope"}`), nil)
	if e := got.end().Error; e.GetCode() != "bad_request" || !strings.Contains(e.Message, "kept for 7m0s (--log-age)") {
		t.Errorf("%v", e)
	}
}

// Who asks for what another kind has accepted is told when none of it is here; a prompt
// that comes again is taken in anew then, unless its request has ended.
func TestOtherKindIsGone(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	s, theirs := ours.replica(), ours.besides()
	w := theirs.has("r", "")
	theirs.append(w, token(0))
	for reason, end := range foreignEnds {
		theirs.ended(reason, end)
	}
	theirs.leave()
	ours.eventually("nobody of it is here", func() bool { return s.view.Synced() && len(s.view.Strangers()) == 0 })
	for _, request := range append(slices.Collect(maps.Keys(foreignEnds)), "r") {
		got := ours.inbox()
		ours.send(ours.d.Subjects.Replay(), got.subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
		if e := got.end().Error; e.GetCode() != "model_not_ready" || !strings.Contains(e.Message, "another kind") {
			t.Errorf("%s: %v", request, e)
		}
	}
	for request := range foreignEnds {
		if e := ours.begin(request, 1).end().Error; e.GetCode() != "bad_request" || !strings.Contains(e.Message, "choose a new one") {
			t.Errorf("%s comes again: %v", request, e)
		}
	}
	anew := ours.begin("r", 1)
	ours.append(ours.claim("r"), token(0), ending("length"))
	anew.whole(1, "length")
}
