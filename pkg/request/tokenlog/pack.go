package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// packedEpoch is what the tokens of a packed log have in place of the epochs
// that made them.
const packedEpoch = 1

// Packer gathers what a log's one record will hold once the log has ended.
type Packer struct {
	// Limit is the most bytes that it may have.
	Limit int

	packed pb.Packed
	size   int
}

// Add takes the next record that the chain let pass.
func (p *Packer) Add(r *pb.Record) {
	if p.size > p.Limit {
		return
	}
	switch k := r.Kind.(type) {
	case *pb.Record_Accept:
		p.packed.Accept = k.Accept
		p.size += proto.Size(k.Accept)
	case *pb.Record_Score:
		p.packed.Scores = append(p.packed.Scores, k.Score)
		p.size += entrySize(proto.Size(k.Score))
	case *pb.Record_Token:
		p.token(k.Token)
	case *pb.Record_Terminal:
		p.packed.Terminal = k.Terminal
		p.size += proto.Size(k.Terminal)
	}
	if p.size > p.Limit {
		p.packed.Reset() // it stays as it is in the log
	}
}

func (p *Packer) token(t *pb.Token) {
	p.packed.TokenIds = append(p.packed.TokenIds, t.Id)
	p.packed.Stop = t.Stop
	p.packed.Cached += t.Cached // only token 0 has some
	p.size += 5
	if t.Cost != nil {
		p.packed.Cost = t.Cost
	}
	if t.Degraded != nil {
		p.packed.Degraded = t.Degraded
	}
	if len(t.Fates) > 0 {
		of := &pb.TokenFates{Index: t.Index, Fates: t.Fates}
		p.packed.Fates = append(p.packed.Fates, of)
		p.size += entrySize(proto.Size(of))
	}
	if t.Logprobs != nil {
		p.packed.Logprobs = append(p.packed.Logprobs, t.Logprobs)
		p.size += entrySize(proto.Size(t.Logprobs))
	}
}

func entrySize(n int) int { return n + 6 }

// Packed returns the ended log in one record; nil if it has not ended or would be
// larger than the limit.
func (p *Packer) Packed() *pb.Packed {
	n := len(p.packed.Logprobs)
	if p.packed.Accept == nil || p.packed.Terminal == nil || n != 0 && n != len(p.packed.TokenIds) {
		return nil
	}
	return &p.packed
}

// unfold makes the records again that a log was packed from.
func unfold(p *pb.Packed) []*pb.Record {
	out := make([]*pb.Record, 0, 2+len(p.Scores)+len(p.TokenIds))
	out = append(out, &pb.Record{Kind: &pb.Record_Accept{Accept: p.GetAccept()}})
	for _, s := range p.Scores {
		out = append(out, &pb.Record{Epoch: packedEpoch, Kind: &pb.Record_Score{Score: s}})
	}
	fates := map[int32][]*pb.Fates{}
	for _, f := range p.Fates {
		fates[f.GetIndex()] = f.GetFates()
	}
	for i, id := range p.TokenIds {
		t := &pb.Token{Index: int32(i), Id: id, Stop: p.Stop && i == len(p.TokenIds)-1, Fates: fates[int32(i)]}
		if i == 0 {
			t.Cached = p.Cached
		}
		if i == len(p.TokenIds)-1 {
			t.Cost, t.Degraded = p.Cost, p.Degraded
		}
		if i < len(p.Logprobs) {
			t.Logprobs = p.Logprobs[i]
		}
		out = append(out, &pb.Record{Epoch: packedEpoch, Kind: &pb.Record_Token{Token: t}})
	}
	return append(out, &pb.Record{Kind: &pb.Record_Terminal{Terminal: p.GetTerminal()}})
}

// Erase leaves of a log that has ended what opened it, without what was asked, and an end that says so;
// ErrUnknown of one that was erased before.
func (l *Log) Erase(ctx context.Context, request string, why *pb.Terminal) error {
	for {
		h, err := l.readAs(ctx, request, l.s.Rules, math.MaxUint64, maxNoise)
		switch {
		case err != nil:
			return err
		case h.chain.accept == nil || proto.Equal(h.chain.end, why):
			return fmt.Errorf("%w: %s has no acceptance, or was erased", ErrUnknown, request)
		case h.chain.end == nil:
			return fmt.Errorf("erasing the log of %s: it has not ended", request)
		}
		opened := proto.CloneOf(h.chain.accept)
		opened.Sequence, opened.FilledIds, opened.Fill, opened.Stop = nil, nil, nil, nil
		_, err = l.put(ctx, request, &pb.Record{Kind: &pb.Record_Packed{Packed: &pb.Packed{Accept: opened, Terminal: why}}}, h.tail)
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

// maxBehind bounds the noise behind the end of a log that is packed: each message takes a
// look, and other logs wait.
const maxBehind = 16

// Pack puts a log that has ended in one record in place of all others. end is
// the sequence of its terminal record; what lies behind that is noise.
func (l *Log) Pack(ctx context.Context, request string, p *pb.Packed, end uint64) error {
	record := &pb.Record{Kind: &pb.Record_Packed{Packed: p}}
	after := end
	for range maxBehind {
		_, err := l.put(ctx, request, record, after)
		if !errors.Is(err, errConflict) {
			return err
		}
		next, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), after+1)
		if errors.Is(err, bus.ErrNoMessage) {
			return nil // gone, with all that could be packed
		}
		if err != nil {
			return err
		}
		if e, err := decode(next); err == nil && e.Record.GetPacked() != nil {
			return nil
		}
		after = next.Sequence
	}
	return fmt.Errorf("%w: more than %d messages behind the end of %s", ErrNoisy, maxBehind, request)
}
