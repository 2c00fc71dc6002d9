package tokenizer

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// earlierLog stores the log of a request as schemas.EarlierVersion writes it, of 3 tokens at
// most and for a model, and returns where each record lies.
func (r *rig) earlierLog(request, reply string, model uint64, tokens int, end bool) (at []uint64) {
	r.t.Helper()
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
			r.t.Fatal(err)
		}
		seq, err := r.d.Conn.StoreBytes(r.ctx(), r.d.Subjects.Token(request), data, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		at = append(at, seq)
	}
	return at
}

// earlierServed says up to where tokenizers of that version have delivered a request's shard.
func (r *rig) earlierServed(request string, position uint64) {
	r.t.Helper()
	value, err := proto.Marshal(&pb.Lease{Owner: "tokenizer-0", Epoch: 1, Position: position})
	if err == nil {
		_, err = r.d.Leases.Put(r.ctx(), earlierLease(schemas.ShardOf(request)), value)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) replayed(request string) *reader {
	r.t.Helper()
	got := r.inbox()
	r.send(r.d.Subjects.Replay(), got.subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
	return got
}

// What the version before has not delivered is, from where it stopped; what it has
// delivered is not sent again; and replays have all of it.
func TestEarlierAnswersAreDelivered(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	half, none, all := r.inbox(), r.inbox(), r.inbox()
	requests := []string{inShard(0, "half"), inShard(1, "none"), inShard(2, "all")}
	at := r.earlierLog(requests[0], half.subject, r.d.Earlier(), 3, true)
	r.earlierServed(requests[0], at[3]) // of token 1
	r.earlierLog(requests[1], none.subject, r.d.Earlier(), 3, true)
	done := r.earlierLog(requests[2], all.subject, r.d.Earlier(), 3, true)
	r.earlierServed(requests[2], done[len(done)-1])
	r.replica()
	none.whole(3, "length")
	if end := half.end(); end.Index != 2 || len(half.chunks()) != 1 {
		t.Errorf("the rest of the answer is %v", half.chunks())
	}
	for _, request := range requests {
		r.replayed(request).whole(3, "length")
	}
	if got := all.chunks(); len(got) > 0 {
		t.Errorf("an answer was delivered again: %v", got)
	}
}

// A request that was begun by the version before goes on where that stopped.
func TestEarlierRequestGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	got := r.inbox()
	r.earlierLog("r", got.subject, r.d.Earlier(), 1, false)
	r.replica()
	w := r.claim("r")
	if w.Epoch() != 2 {
		t.Errorf("epoch %d", w.Epoch())
	}
	r.append(w, token(1), token(2), ending("length"))
	got.whole(3, "length")
}

// What another kind has accepted and delivered in part, or not at all, ends by one error
// when its tokenizers are gone, and replays say the same; what was delivered stays as it is.
func TestStraysEnd(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	theirs := ours.besides()
	gone := New(theirs.d, Config{MaxQueued: DefaultMaxQueued})
	delivered := ours.inbox()
	theirs.append(theirs.has("delivered", delivered.subject), token(0), token(1), token(2), token(3), token(4), ending("length"))
	theirs.served(gone)
	readers := map[string]*reader{}
	for request, records := range map[string][]*pb.Record{
		"whole": {token(0), token(1), token(2), token(3), token(4), ending("length")}, "begun": {token(0)},
		"cancelled": {ending("cancelled")},
	} {
		readers[request] = ours.inbox()
		theirs.append(theirs.has(request, readers[request].subject), records...)
	}
	readers["earlier"] = ours.inbox()
	ours.earlierLog("earlier", readers["earlier"].subject, 4711, 3, true)
	ours.earlierServed("earlier", 0)
	theirs.leave()
	ours.replica()
	for request, reader := range readers {
		if e := reader.end(); e.Index != -1 || e.Error.GetCode() != "model_not_ready" {
			t.Errorf("%s ended by %v", request, e)
		}
		if e := ours.replayed(request).end(); e.Index != -1 || e.Error.GetCode() != "model_not_ready" {
			t.Errorf("%s is replayed as %v", request, e)
		}
		if n := len(reader.ends()); n != 1 {
			t.Errorf("%s ended %d times", request, n)
		}
	}
	if got := delivered.chunks(); len(got) > 0 {
		t.Errorf("what was delivered is told of again: %v", got)
	}
}

// While replicas that could deliver them are here, strays are theirs.
func TestStraysOfTheLiving(t *testing.T) {
	t.Parallel()
	ours := newRig(t, 0)
	theirs := ours.besides()
	gone := New(theirs.d, Config{MaxQueued: DefaultMaxQueued})
	theirs.served(gone)
	got := ours.inbox()
	theirs.append(theirs.has("r", got.subject), token(0))
	s := ours.replica()
	ours.eventually("the other kind is known", func() bool { return len(s.view.Strangers()) > 0 && s.shards.count() == schemas.LogShards })
	if err := s.sweep(ours.ctx(), schemas.ShardOf("r")); err != nil || len(got.chunks()) > 0 {
		t.Errorf("it is told %v: %v", got.chunks(), err)
	}
	theirs.leave()
	if e := got.end(); e.Error.GetCode() != "model_not_ready" {
		t.Errorf("it ended by %v", e)
	}
}

func TestParseLease(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"shard-3": "3 1 0", "shard-7-v2-00000000000000ff": "7 2 255",
		"planner": "", "shard-8": "", "shard-x": "", "shard-3-": "", "shard-3-v2-ff": "", "shard--1": "", "shard-3-v2-00000000000000ff-": "", "shard-3-v1-00000000000000ff": "",
	} {
		got := ""
		if l, ok := parseLease(key); ok {
			got = fmt.Sprint(l.shard, l.id.Version, l.id.Model)
		}
		if got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
}
