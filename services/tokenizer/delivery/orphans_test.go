package delivery_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// earlierLog stores the log of a request as schemas.EarlierVersion writes it, of 3 tokens at
// most and for a model, and returns where each record lies.
func earlierLog(r *rig.Rig, request, reply string, model uint64, tokens int, end bool) (at []uint64) {
	r.T.Helper()
	records := []*pb.EarlierRecord{
		{Kind: &pb.EarlierRecord_Accept{Accept: &pb.Accept{
			Identity: &pb.Identity{Version: schemas.EarlierVersion, Model: model}, ReplyTo: reply,
			Encoding: pb.Encoding_ENCODING_JSON, PromptSequence: 99, PromptTokens: 2, MaxTokens: 3,
		}}},
		{Kind: &pb.EarlierRecord_Claim{Claim: &pb.EarlierClaim{Owner: "attention-0", Epoch: 1}}},
	}
	for i := range tokens {
		records = append(records, &pb.EarlierRecord{Kind: &pb.EarlierRecord_Token{
			Token: &pb.EarlierToken{Index: int32(i), Id: uint32(300 + i), Epoch: 1},
		}})
	}
	if end {
		records = append(records, &pb.EarlierRecord{Kind: &pb.EarlierRecord_Terminal{Terminal: &pb.Terminal{FinishReason: "length"}}})
	}
	for _, record := range records {
		data, err := proto.Marshal(record)
		if err != nil {
			r.T.Fatal(err)
		}
		seq, err := r.D.Conn.StoreBytes(r.Ctx(), r.D.Subjects.Token(request), data, nil)
		if err != nil {
			r.T.Fatal(err)
		}
		at = append(at, seq)
	}
	return at
}

// earlierServed says up to where tokenizers of that version have delivered a request's shard.
func earlierServed(r *rig.Rig, request string, position uint64) {
	r.T.Helper()
	value, err := proto.Marshal(&pb.Lease{Owner: "tokenizer-0", Epoch: 1, Position: position})
	if err == nil {
		_, err = r.D.Leases.Put(r.Ctx(), delivery.EarlierLease(schemas.ShardOf(request)), value)
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

func replayed(r *rig.Rig, request string) *rig.Reader {
	r.T.Helper()
	got := r.Inbox()
	r.Send(r.D.Subjects.Replay(), got.Subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
	return got
}

// What the version before has not delivered is, from where it stopped; what it has
// delivered is not sent again; and replays have all of it.
func TestEarlierAnswersAreDelivered(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	half, none, all := r.Inbox(), r.Inbox(), r.Inbox()
	requests := []string{inShard(0, "half"), inShard(1, "none"), inShard(2, "all")}
	at := earlierLog(r, requests[0], half.Subject, r.D.Earlier(), 3, true)
	earlierServed(r, requests[0], at[3]) // of token 1
	earlierLog(r, requests[1], none.Subject, r.D.Earlier(), 3, true)
	done := earlierLog(r, requests[2], all.Subject, r.D.Earlier(), 3, true)
	earlierServed(r, requests[2], done[len(done)-1])
	r.Replica()
	wantWhole(none, 3, "length")
	if end := half.End(); end.Index != 2 || len(half.Chunks()) != 1 {
		t.Errorf("the rest of the answer is %v", half.Chunks())
	}
	for _, request := range requests {
		wantWhole(replayed(r, request), 3, "length")
	}
	if got := all.Chunks(); len(got) > 0 {
		t.Errorf("an answer was delivered again: %v", got)
	}
}

// A request that was begun by the version before goes on where that stopped.
func TestEarlierRequestGoesOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	got := r.Inbox()
	earlierLog(r, "r", got.Subject, r.D.Earlier(), 1, false)
	r.Replica()
	w := r.Claim("r")
	if w.Epoch() != 2 {
		t.Errorf("epoch %d", w.Epoch())
	}
	r.Append(w, rig.Token(1), rig.Token(2), rig.Ending("length"))
	wantWhole(got, 3, "length")
}

// What another kind has accepted and delivered in part, or not at all, ends by one error
// when its tokenizers are gone, and replays say the same; what was delivered stays as it is.
func TestOrphansEnd(t *testing.T) {
	t.Parallel()
	ours := rig.New(t, 0)
	theirs := besides(ours)
	gone := theirs.Unstarted(theirs.D)
	delivered := ours.Inbox()
	theirs.Append(acceptFor(theirs, "delivered", delivered.Subject), rig.Token(0), rig.Token(1), rig.Token(2), rig.Token(3), rig.Token(4), rig.Ending("length"))
	deliveredAll(theirs, gone)
	readers := map[string]*rig.Reader{}
	for request, records := range map[string][]*pb.Record{
		"whole": {rig.Token(0), rig.Token(1), rig.Token(2), rig.Token(3), rig.Token(4), rig.Ending("length")}, "begun": {rig.Token(0)},
		"cancelled": {rig.Ending("cancelled")},
	} {
		readers[request] = ours.Inbox()
		theirs.Append(acceptFor(theirs, request, readers[request].Subject), records...)
	}
	readers["earlier"] = ours.Inbox()
	earlierLog(ours, "earlier", readers["earlier"].Subject, 4711, 3, true)
	earlierServed(ours, "earlier", 0)
	theirs.Leave()
	ours.Replica()
	for request, reader := range readers {
		if e := reader.End(); e.Index != -1 || e.Error.GetCode() != "model_not_ready" {
			t.Errorf("%s ended by %v", request, e)
		}
		if e := replayed(ours, request).End(); e.Index != -1 || e.Error.GetCode() != "model_not_ready" {
			t.Errorf("%s is replayed as %v", request, e)
		}
		if n := len(reader.Ends()); n != 1 {
			t.Errorf("%s ended %d times", request, n)
		}
	}
	if got := delivered.Chunks(); len(got) > 0 {
		t.Errorf("what was delivered is told of again: %v", got)
	}
}

// While replicas that could deliver them are here, orphans are theirs.
func TestOrphansOfTheLiving(t *testing.T) {
	t.Parallel()
	ours := rig.New(t, 0)
	theirs := besides(ours)
	gone := theirs.Unstarted(theirs.D)
	deliveredAll(theirs, gone)
	got := ours.Inbox()
	theirs.Append(acceptFor(theirs, "r", got.Subject), rig.Token(0))
	s := ours.Replica()
	ours.Eventually("the other kind is known", func() bool {
		return len(s.Members().OtherKinds()) > 0 && s.Delivery.Shards.Count() == schemas.LogShards
	})
	if err := s.Delivery.Shards.Sweep(ours.Ctx(), schemas.ShardOf("r")); err != nil || len(got.Chunks()) > 0 {
		t.Errorf("it is told %v: %v", got.Chunks(), err)
	}
	theirs.Leave()
	if e := got.End(); e.Error.GetCode() != "model_not_ready" {
		t.Errorf("it ended by %v", e)
	}
}
