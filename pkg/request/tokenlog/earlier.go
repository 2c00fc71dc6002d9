package tokenlog

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Logs of schemas.EarlierVersion are read as if this version had written them, so that
// what was accepted before an upgrade is delivered, replayed, and finished behind it:
//
//	accept  claim(1)  token 0  token 1 │ claim(2)  token 2  …  terminal
//	            version 1              │        this version

// earlier is the record of that version in a message; nil if there is none. Its records have
// no mark that tells them from other messages, so that each must be complete, and say
// nothing that nobody knows.
func earlier(data []byte) *pb.Record {
	old := &pb.EarlierRecord{}
	if proto.Unmarshal(data, old) != nil || len(old.ProtoReflect().GetUnknown()) > 0 {
		return nil
	}
	r := &pb.Record{Format: schemas.EarlierFormat}
	var known bool
	switch k := old.Kind.(type) {
	case *pb.EarlierRecord_Accept:
		r.Kind, known = &pb.Record_Accept{Accept: k.Accept}, k.Accept.GetIdentity().GetVersion() == schemas.EarlierVersion && whole(k.Accept)
	case *pb.EarlierRecord_Claim:
		r.Writer, r.Epoch = k.Claim.GetOwner(), k.Claim.GetEpoch()
		r.Kind, known = &pb.Record_Claim{Claim: &pb.Claim{}}, whole(k.Claim)
	case *pb.EarlierRecord_Token:
		t := k.Token
		r.Epoch = t.GetEpoch()
		r.Kind = &pb.Record_Token{Token: &pb.Token{Index: t.GetIndex(), Id: t.GetId(), Logprobs: t.GetLogprobs(), Stop: t.GetStop()}}
		known = whole(t)
	case *pb.EarlierRecord_Score:
		r.Kind, known = &pb.Record_Score{Score: k.Score}, whole(k.Score)
	case *pb.EarlierRecord_Terminal:
		r.Kind, known = &pb.Record_Terminal{Terminal: k.Terminal}, whole(k.Terminal)
	}
	if !known {
		return nil
	}
	return r
}

// whole says whether a message has nothing but what is known of its kind.
func whole(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) == 0 }

// IsEarlier says whether a record is of that version.
func IsEarlier(r *pb.Record) bool { return r.GetFormat() == schemas.EarlierFormat }

// checkEarlier takes records of that version in logs alone that it has opened.
func (c *Chain) checkEarlier(r *pb.Record) error {
	opened := cmp.Or(c.accept.GetIdentity(), c.foreign)
	if !IsEarlier(r) || r.GetAccept() != nil || opened.GetVersion() == schemas.EarlierVersion {
		return nil
	}
	return fmt.Errorf("a record of schema version %d in a log that this has not opened", schemas.EarlierVersion)
}

// scoreEpoch is a score's epoch; those of that version do not say theirs.
func (c *Chain) scoreEpoch(r *pb.Record) uint64 {
	if IsEarlier(r) {
		return c.epoch
	}
	return r.Epoch
}

// OpenedBy is what replicas of an identity have opened a request's log with; ErrUnknown if
// they have not.
func (l *Log) OpenedBy(ctx context.Context, request string, id *pb.Identity) (*pb.Accept, error) {
	h, err := l.readAs(ctx, request, rulesOf(id), math.MaxUint64, 0)
	if err != nil {
		return nil, err
	}
	if h.chain.accept == nil {
		return nil, fmt.Errorf("%w: %s has no acceptance of schema version %d for model %016x", ErrUnknown, request, id.GetVersion(), id.GetModel())
	}
	return h.chain.accept, nil
}

// Ours says whether an identity is one under which this kind has accepted, now or before an upgrade.
func (l *Log) Ours(id *pb.Identity) bool { return l.s.Rules.made(id) }
