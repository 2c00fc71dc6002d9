package tokenlog

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// earlierModel is what the earlier version said for the rules' model.
const earlierModel = 70

func earlierOpening(model uint64) *pb.EarlierRecord {
	a := opening(0)
	a.Identity = &pb.Identity{Version: schemas.EarlierVersion, Model: model}
	return &pb.EarlierRecord{Kind: &pb.EarlierRecord_Accept{Accept: a}}
}

func earlierClaim(epoch uint64) *pb.EarlierRecord {
	return &pb.EarlierRecord{Kind: &pb.EarlierRecord_Claim{Claim: &pb.EarlierClaim{Owner: "attention-0", Epoch: epoch}}}
}

func earlierToken(epoch uint64, i int) *pb.EarlierRecord {
	return &pb.EarlierRecord{Kind: &pb.EarlierRecord_Token{Token: &pb.EarlierToken{Index: int32(i), Id: uint32(i), Epoch: epoch}}}
}

func earlierScore(position int) *pb.EarlierRecord {
	return &pb.EarlierRecord{Kind: &pb.EarlierRecord_Score{Score: &pb.Score{Position: int32(position)}}}
}

func earlierEnd(reason string) *pb.EarlierRecord {
	return &pb.EarlierRecord{Kind: &pb.EarlierRecord_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}}
}

// written puts records of the earlier version into a log.
func (r *rig) written(request string, records ...*pb.EarlierRecord) {
	r.t.Helper()
	for _, old := range records {
		data, err := proto.Marshal(old)
		if err == nil {
			_, err = r.conn.StoreBytes(r.ctx(), names.Subjects.Token(request), data, nil)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// upgraded is a replica that knows what the earlier version said for its model.
func (r *rig) upgraded() *Log {
	s := r.as("a")
	s.Rules.Earlier = func() uint64 { return earlierModel }
	return New(r.conn, names, s)
}

// A log of the earlier version is read, gone on with, ended and packed as one of this.
func TestEarlierLog(t *testing.T) {
	r := newRig(t)
	l := r.upgraded()
	r.written("r", earlierOpening(earlierModel), earlierClaim(1), earlierScore(0), earlierToken(1, 0), earlierToken(1, 1))
	w, history, err := l.Claim(r.ctx(), "r", opening(0), WriterSettings{})
	if err != nil {
		t.Fatal(err)
	}
	if len(history) != 6 || w.Epoch() != 2 || history[4].Record.GetToken().GetId() != 1 {
		t.Fatalf("epoch %d behind %v", w.Epoch(), history)
	}
	// What a suspended owner of the earlier version would have written is refused by the server.
	appendAll(t, w, token(2), terminal("stop"))
	r.flush(w)
	_, chain, err := l.Read(r.ctx(), "r", 1<<40)
	if err != nil || chain.Tokens() != 3 || chain.End().GetFinishReason() != "stop" || r.passed.Load() != 0 {
		t.Fatalf("%d tokens, end %v, %d passed over: %v", chain.Tokens(), chain.End(), r.passed.Load(), err)
	}
	var p Packer
	p.Limit = 1 << 10
	_ = l.FollowRequest(r.ctx(), "r", func(e Entry) bool { p.Add(e.Record); return e.Record.GetTerminal() == nil })
	last, _ := l.Last(r.ctx(), "r")
	if err := l.Pack(r.ctx(), "r", p.Packed(), last); err != nil {
		t.Fatal(err)
	}
	if all, chain, err := l.Read(r.ctx(), "r", 1<<40); err != nil || chain.Tokens() != 3 || !all[0].Packed {
		t.Errorf("packed: %v: %v", all, err)
	}
}

// What it lacks, or somebody else wrote, is noise.
func TestEarlierNoise(t *testing.T) {
	for name, c := range map[string]struct {
		records []*pb.EarlierRecord
		tokens  int32
		foreign bool
	}{
		"whole":                  {[]*pb.EarlierRecord{earlierOpening(earlierModel), earlierClaim(1), earlierToken(1, 0)}, 1, false},
		"of another model":       {[]*pb.EarlierRecord{earlierOpening(earlierModel + 1), earlierClaim(1), earlierToken(1, 0)}, 0, true},
		"without its acceptance": {[]*pb.EarlierRecord{earlierClaim(1), earlierToken(1, 0)}, 0, false},
		"of a stale owner":       {[]*pb.EarlierRecord{earlierOpening(earlierModel), earlierClaim(1), earlierClaim(2), earlierToken(1, 0)}, 0, false},
		"again":                  {[]*pb.EarlierRecord{earlierOpening(earlierModel), earlierClaim(1), earlierToken(1, 0), earlierToken(1, 0)}, 1, false},
	} {
		c0 := NewChain(Rules{Model: 7, Vocab: 10, Positions: 10_000, Earlier: func() uint64 { return earlierModel }})
		for _, old := range c.records {
			data, _ := proto.Marshal(old)
			e, err := decode(bus.Stored{Data: data})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := c0.Take(e.Record); err != nil && !errors.Is(err, ErrNoise) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if c0.Tokens() != c.tokens || (c0.Foreign() != nil) != c.foreign || c0.Broken() != nil {
			t.Errorf("%s: %d tokens, foreign %v, broken %v", name, c0.Tokens(), c0.Foreign(), c0.Broken())
		}
	}
}

// A log of this version takes nothing of the earlier one.
func TestEarlierInOurs(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	r.written("r", earlierClaim(1), earlierToken(1, 0), earlierEnd("cancelled"))
	if all := r.read("r"); len(all) != 1 || r.passed.Load() != 3 {
		t.Errorf("%v, %d passed over", all, r.passed.Load())
	}
}

// Messages that are no records of the earlier version do not read as such.
func TestNotEarlier(t *testing.T) {
	id := &pb.Identity{Version: schemas.EarlierVersion, Model: 1}
	for i, m := range []proto.Message{
		&pb.Sequence{Identity: id, RequestId: "r", PromptIds: []uint32{1}}, &pb.Chunk{RequestId: "r", Index: 1, Text: "x"},
		&pb.Hidden{Key: &pb.Key{Version: 1, Model: 2, Owner: "a", Rows: 1}}, &pb.Step{Version: 1, Model: 2, Owner: "a"},
		&pb.Lease{Owner: "a", Epoch: 1}, &pb.Member{Id: "a", Service: "gate"}, &pb.Prompt{Text: "x"}, &pb.Identity{}, &pb.EarlierRecord{},
		earlierOpening(1).GetAccept(), &pb.Record{Format: schemas.RecordFormat},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if r := earlier(data); r != nil {
			t.Errorf("%d, a %T, reads as %v", i, m, r)
		}
	}
	if r := earlier([]byte(`{"stream":"switchyard_PROMPTS_demo", "seq":1}`)); r != nil {
		t.Errorf("an acknowledgement reads as %v", r)
	}
}

func FuzzEarlier(f *testing.F) {
	for _, m := range []proto.Message{earlierOpening(1), earlierClaim(1), earlierToken(1, 1), earlierScore(1), earlierEnd("stop")} {
		data, _ := proto.Marshal(m)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := earlier(data)
		if r == nil {
			return
		}
		c := NewChain(Rules{Model: 7, Vocab: 10, Positions: 10, Earlier: func() uint64 { return 1 }})
		if _, err := c.Take(r); err != nil && !errors.Is(err, ErrNoise) {
			t.Error(err)
		}
	})
}

// Who asks for what the earlier version has accepted for another model is told so.
func TestEarlierOfAnotherModel(t *testing.T) {
	r := newRig(t)
	r.written("r", earlierOpening(earlierModel+1), earlierClaim(1))
	var kind *KindError
	err := r.upgraded().FollowRequest(r.ctx(), "r", func(Entry) bool { return true })
	if !errors.As(err, &kind) || fmt.Sprint(kind.Identity.GetVersion(), kind.Identity.GetModel()) != "1 71" {
		t.Errorf("%v", err)
	}
}
