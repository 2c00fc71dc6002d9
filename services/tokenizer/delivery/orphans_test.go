package delivery_test

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

func replayed(r *rig.Rig, request string) *rig.Reader {
	r.T.Helper()
	got := r.Inbox()
	r.Send(r.D.Subjects.Replay(), got.Subject, fmt.Appendf(nil, `{"request_id":%q}`, request), nil)
	return got
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
