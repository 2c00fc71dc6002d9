package tokenlog

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func gaveUp(*KindError) *pb.Terminal { return failure("model_not_ready").GetTerminal() }

func anybody(*pb.Identity) bool { return true }

// A request that another kind has left is ended once, whether its answer was whole or not;
// one of this kind, and one that is unknown, is let be.
func TestAbandon(t *testing.T) {
	r := newRig(t)
	s := r.as("b")
	s.Rules.Model = theirs().Identity.Model
	other := New(r.conn, names, s)
	for _, request := range []string{"whole", "begun"} {
		if _, err := other.Accept(r.ctx(), request, theirs()); err != nil {
			t.Fatal(err)
		}
		w, _ := r.claim(other, request, WriterSettings{})
		if request == "whole" {
			appendAll(t, w, token(0), terminal("length"))
		}
		r.flush(w)
	}
	r.accept("ours")
	for request, stray := range map[string]bool{"whole": true, "begun": true, "ours": false, "unknown": false} {
		for _, first := range []bool{true, false} {
			accept, end, err := r.log.Abandon(r.ctx(), request, anybody, gaveUp)
			if err != nil || (accept != nil) != (stray && first) {
				t.Errorf("%s, the first time %v: %v, %v: %v", request, first, accept, end, err)
			}
		}
		if !stray {
			continue
		}
		_, chain, err := r.log.Read(r.ctx(), request, 1<<40)
		if err != nil || chain.End().GetError().GetCode() != "model_not_ready" || !chain.Accept().GetLost() {
			t.Errorf("%s: %v, %v: %v", request, chain.Accept(), chain.End(), err)
		}
	}
}

// What lies behind a place and is not packed may be undelivered.
func TestLoose(t *testing.T) {
	r := newRig(t)
	shard := schemas.ShardOf("a")
	ids := []string{"a"}
	for c := 'b'; len(ids) < 3; c++ {
		if schemas.ShardOf(string(c)) == shard {
			ids = append(ids, string(c))
		}
	}
	for _, id := range ids {
		r.accept(id)
	}
	w, _ := r.claim(r.log, ids[0], WriterSettings{})
	appendAll(t, w, terminal("cancelled"))
	r.flush(w)
	end, _ := r.log.Last(r.ctx(), ids[0])
	packed := &pb.Packed{Accept: opening(0), Terminal: terminal("cancelled").GetTerminal()}
	if err := r.log.Pack(r.ctx(), ids[0], packed, end); err != nil {
		t.Fatal(err)
	}
	state, err := r.conn.State(r.ctx(), names.Tokens().Name)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		behind bus.Place
		want   []string
	}{
		"all":                   {bus.Place{}, ids[1:]},
		"of no known stream":    {bus.Place{Sequence: 2}, ids[2:]},
		"of this stream":        {bus.Place{Incarnation: state.Incarnation, Sequence: 2}, ids[2:]},
		"of another stream":     {bus.Place{Incarnation: 1, Sequence: 2}, ids[1:]},
		"behind everything":     {bus.Place{Sequence: state.Last}, nil},
		"behind what is stored": {bus.Place{Sequence: state.Last + 9}, ids[1:]},
	} {
		if got, err := r.log.Loose(r.ctx(), shard, c.behind); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v: %v", name, got, c.want, err)
		}
	}
}
