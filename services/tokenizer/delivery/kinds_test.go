package delivery_test

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
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// besides is a deployment of another model under the same name on a rig's server. That is
// refused where the others are heard in time, and comes about where they were suspended.
func besides(r *rig.Rig) *rig.Rig {
	r.T.Helper()
	m := *r.D.Model
	m.Hash = strings.Repeat("7", len(m.Hash))
	other := &rig.Rig{T: r.T, Srv: r.Srv, URL: r.URL, NC: r.NC, Model: &m, Bounds: r.Bounds}
	other.Deploy("attention-2")
	return other
}

// meet waits until a replica knows of those of another kind.
func meetKinds(r *rig.Rig, all ...*rig.Replica) {
	r.T.Helper()
	for _, s := range all {
		r.Eventually("the other kind is known", func() bool { return len(s.Members().OtherKinds()) >= 2 })
	}
}

// taker is who has accepted a request.
func taker(t *testing.T, request string, all ...*rig.Rig) (found *rig.Rig) {
	t.Helper()
	all[0].Eventually("the acceptance of "+request, func() bool {
		for _, r := range all {
			if _, err := r.Log.Opening(r.Ctx(), request); err == nil {
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
	ours := rig.New(t, 0)
	theirs := besides(ours)
	replicas := []*rig.Replica{ours.Replica(), theirs.Replica()}
	meetKinds(ours, replicas...)
	taken := map[*rig.Rig]int{}
	for i := 0; len(taken) < 2 || i < 4; i++ {
		request := fmt.Sprint("r", i)
		got := beginPrompt(ours, request, 3)
		by := taker(t, request, ours, theirs)
		taken[by]++
		w := by.Claim(request)
		by.Append(w, rig.Token(0), rig.Token(1))
		again := ours.Inbox()
		ours.Send(ours.D.Subjects.Replay(), again.Subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
		repeat := beginPrompt(ours, request, 3)
		ours.Eventually("two chunks for three readers", func() bool {
			return len(got.Chunks()) >= 2 && len(again.Chunks()) >= 2 && len(repeat.Chunks()) >= 2
		})
		by.Append(w, rig.Token(2), rig.Ending("length"))
		for _, reader := range []*rig.Reader{got, again, repeat} {
			wantWhole(reader, 3, "length")
		}
	}
	for _, s := range replicas {
		ours.Eventually(s.Name()+" has all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	}
}

// The next owner of a shard leaves alone what another kind has under way in it, and what
// was there before counts for nobody.
func TestTakeOverAmongKinds(t *testing.T) {
	t.Parallel()
	ours := rig.New(t, 0)
	theirs := besides(ours)
	w := acceptFor(theirs, "theirs", "")
	theirs.Append(w, rig.Token(0), rig.Token(1))
	s := ours.Unstarted(ours.D)
	deliveredAll(ours, s)
	ours.Start(s)
	for i := range 3 {
		theirs.Append(w, rig.Token(2+i))
		answerBeside(ours, "theirs", i)
	}
	theirs.Append(w, rig.Ending("length"))
	if end := theirs.Terminal("theirs"); end.GetFinishReason() != "length" {
		t.Errorf("it ended by %v", end)
	}
	if n := s.Delivery.Announced(); n < 0 {
		t.Errorf("%d bytes are announced", n)
	}
}

// foreignEnds are the ways in which a request of another kind may end.
var foreignEnds = map[string]*pb.Record{
	"stop": rig.Ending("stop"), "length": rig.Ending("length"), "cancelled": rig.Ending("cancelled"),
	"error": {Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "internal"}}}},
}

// The owner of a shard lets a request of another kind go when it ends.
func TestForeignRequestsAreLetGo(t *testing.T) {
	t.Parallel()
	ours := rig.New(t, 0)
	theirs := besides(ours)
	const shard = 0
	for reason, end := range foreignEnds {
		acceptEnded(theirs, inShard(shard, reason), end)
	}
	last, err := ours.D.Conn.State(ours.Ctx(), ours.D.Streams.Tokens().Name)
	if err != nil {
		t.Fatal(err)
	}
	s := ours.Unstarted(ours.D)
	sh := s.Delivery.OwnedShard(ours.Ctx(), tokenlog.Of(ours.D, s.Name()), shard)
	owned := make(chan *lease.Held, 1)
	stop := ours.Run(func(ctx context.Context) error {
		return lease.Hold(ctx, ours.D.Leases, s.Delivery.Kinds.ShardLease(shard), s.Name(), lease.Options{}, func(ctx context.Context, held *lease.Held) error {
			owned <- held
			return sh.Follow(ctx, held)
		})
	})
	held := <-owned
	ours.Eventually("all is taken", func() bool { return held.Position().Sequence == last.Last })
	stop()
	for request := range sh.Written() {
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
func acceptEnded(r *rig.Rig, request string, end *pb.Record) {
	r.T.Helper()
	w := acceptFor(r, request, "")
	for i := range 5 {
		r.Append(w, rig.Token(i))
	}
	r.Append(w, proto.CloneOf(end)) // the log writes into it, and other tests end theirs with it
}

// has is a request of 5 tokens that a rig's kind has accepted and claimed.
func acceptFor(r *rig.Rig, request, reply string) *tokenlog.Writer {
	r.T.Helper()
	accept := &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: r.D.Identity.Model}, ReplyTo: reply,
		Encoding: pb.Encoding_ENCODING_JSON, PromptSequence: 99, PromptTokens: 2, MaxTokens: 5,
	}
	if _, err := r.Log.Accept(r.Ctx(), request, accept); err != nil {
		r.T.Fatal(err)
	}
	return r.Claim(request)
}

// served seems to have had owners of all shards that have delivered everything.
func deliveredAll(r *rig.Rig, s *rig.Replica) {
	r.T.Helper()
	now, err := r.D.Conn.State(r.Ctx(), r.D.Streams.Tokens().Name)
	if err != nil {
		r.T.Fatal(err)
	}
	value, err := proto.Marshal(&pb.Lease{Epoch: 1, Position: now.Last, Incarnation: now.Incarnation})
	if err != nil {
		r.T.Fatal(err)
	}
	for shard := range schemas.LogShards {
		if _, err := r.D.Leases.Put(r.Ctx(), s.Delivery.Kinds.ShardLease(shard), value); err != nil {
			r.T.Fatal(err)
		}
	}
}

// answer asks for an answer whose log is in the shard of another request, and has it.
func answerBeside(r *rig.Rig, beside string, i int) {
	r.T.Helper()
	request := inShard(schemas.ShardOf(beside), fmt.Sprint("beside-", i))
	got := beginPrompt(r, request, 1)
	r.Append(r.Claim(request), rig.Token(0), rig.Ending("length"))
	wantWhole(got, 1, "length")
}

// Who asks for what nobody knows is told how long anything is known.
func TestUnknownIsKeptForLogAge(t *testing.T) {
	t.Parallel()
	r := rig.NewBounded(t, rig.Bounds{LogAge: 7 * time.Minute}, 1)
	got := r.Inbox()
	r.Send(r.D.Subjects.Replay(), got.Subject, []byte(`{"request_id":"nope"}`), nil)
	if e := got.End().Error; e.GetCode() != "bad_request" || !strings.Contains(e.Message, "kept for 7m0s (--log-age)") {
		t.Errorf("%v", e)
	}
}

// Who asks for what another kind has accepted is told when none of it is here; a prompt
// that comes again is taken in anew then, unless its request has ended.
func TestOtherKindIsGone(t *testing.T) {
	t.Parallel()
	ours := rig.New(t, 0)
	s, theirs := ours.Replica(), besides(ours)
	w := acceptFor(theirs, "r", "")
	theirs.Append(w, rig.Token(0))
	for reason, end := range foreignEnds {
		acceptEnded(theirs, reason, end)
	}
	theirs.Leave()
	ours.Eventually("nobody of it is here", func() bool { return s.Members().Synced() && len(s.Members().OtherKinds()) == 0 })
	for _, request := range append(slices.Collect(maps.Keys(foreignEnds)), "r") {
		got := ours.Inbox()
		ours.Send(ours.D.Subjects.Replay(), got.Subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
		if e := got.End().Error; e.GetCode() != "model_not_ready" || !strings.Contains(e.Message, "another kind") {
			t.Errorf("%s: %v", request, e)
		}
	}
	for request := range foreignEnds {
		if e := beginPrompt(ours, request, 1).End().Error; e.GetCode() != "bad_request" || !strings.Contains(e.Message, "choose a new one") {
			t.Errorf("%s comes again: %v", request, e)
		}
	}
	anew := beginPrompt(ours, "r", 1)
	ours.Append(ours.Claim("r"), rig.Token(0), rig.Ending("length"))
	wantWhole(anew, 1, "length")
}
