package tokenlog

import (
	"errors"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ends are the ways in which a request of one token may end.
func ends() map[string]*pb.Record {
	all := map[string]*pb.Record{"error": failure("internal")}
	for _, reason := range []string{"stop", "length", "cancelled"} {
		all[reason] = terminal(reason)
	}
	return all
}

// theirs is an opening of one token by replicas that serve another model.
func theirs() *pb.Accept {
	a := opening(0)
	a.Identity.Model, a.MaxTokens = rules.Model+1, 1
	return a
}

// Any end ends a log whose acceptance is gone, or is another kind's.
func TestEndsWithoutAcceptance(t *testing.T) {
	for name, before := range map[string][]*pb.Record{
		"gone": {tokenIn(1, 0, 5)}, "another kind's": {accept(theirs()), claimOf(1), tokenIn(1, 0, 5)},
	} {
		for reason, end := range ends() {
			c := NewChain(rules)
			for _, r := range before {
				if _, err := c.Take(r); !errors.Is(err, ErrNoise) {
					t.Errorf("%s: %v is no noise: %v", name, r, err)
				}
			}
			if _, err := c.Take(end); err != nil || c.End() == nil {
				t.Errorf("%s, an end by %s: %v", name, reason, err)
			}
		}
	}
}

// Who follows a log of another kind is told whose it is, also when it has ended.
func TestFollowForeign(t *testing.T) {
	r := newRig(t)
	s := r.as("b")
	s.Rules.Model = theirs().Identity.Model
	other := New(r.conn, names, s)
	for reason, end := range ends() {
		if _, err := other.Accept(r.ctx(), reason, theirs()); err != nil {
			t.Fatal(err)
		}
		w, _ := r.claim(other, reason, WriterSettings{})
		appendAll(t, w, token(0), end)
		r.flush(w)
		var kind *KindError
		err := r.log.FollowRequest(r.ctx(), reason, func(Entry) bool { return true })
		if !errors.As(err, &kind) || kind.Identity.GetModel() != s.Rules.Model {
			t.Errorf("ended by %s: %v", reason, err)
		}
	}
}
