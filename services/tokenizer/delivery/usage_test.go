package delivery

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// cached has a token say how many of the prompt's were not computed.
func cached(r *pb.Record, n int32) *pb.Record {
	r.Epoch, r.GetToken().Cached = 1, n
	return r
}

// degraded has a record say what a brownout has changed.
func degraded(r *pb.Record, rows uint32) *pb.Record {
	d := &pb.Degraded{Rows: rows, Tokens: 2, LowestMillionths: 600_000, Way: 8}
	if r.Epoch = 1; r.GetToken() != nil {
		r.GetToken().Degraded = d
	} else {
		r.GetTerminal().Degraded = d
	}
	return r
}

// The last chunk has what the request took: the end's, else the newest token's; nothing if
// nobody has metered. A packed log says the same.
func TestUsage(t *testing.T) {
	costs := func(all ...float64) (out []*pb.Record) {
		for i, r := range tokens("abc"[:len(all)]) {
			if all[i] >= 0 {
				r.GetToken().Cost = &pb.Cost{ExpertGbS: all[i], ColdStarts: 1}
			}
			r.Epoch = 1
			out = append(out, r)
		}
		return out
	}
	end := func(c *pb.Cost) *pb.Record {
		r := terminal("stop")
		r.GetTerminal().Cost = c
		return r
	}
	for _, tc := range []struct {
		name    string
		stop    []string
		records []*pb.Record
		want    *pb.Usage
	}{
		{"behind what is cached", nil, []*pb.Record{cached(tokens("ab")[0], 16), cached(tokens("ab")[1], 0), end(nil)}, &pb.Usage{CompletionTokens: 2, PromptTokens: 20, CachedTokens: proto.Int32(16)}},
		{"nobody has metered", nil, append(costs(-1, -1), end(nil)), &pb.Usage{CompletionTokens: 2}},
		{"the end's", nil, append(costs(1, 2), end(&pb.Cost{ExpertGbS: 3, ColdStarts: 2})), &pb.Usage{CompletionTokens: 2, ExpertGbS: proto.Float64(3), ColdStarts: proto.Uint32(2)}},
		{"the newest token's", nil, append(costs(1, 2), end(nil)), &pb.Usage{CompletionTokens: 2, ExpertGbS: proto.Float64(2), ColdStarts: proto.Uint32(1)}},
		{"in a brownout", nil, []*pb.Record{degraded(tokens("a")[0], 4), degraded(terminal("stop"), 6)}, &pb.Usage{
			CompletionTokens: 1, DegradedRows: proto.Uint32(6), DegradedTokens: proto.Uint32(2), LowestThreshold: proto.Float64(0.6), UnitedWay: proto.Uint32(8),
		}},
		{"in a brownout, up to the newest token", nil, []*pb.Record{degraded(tokens("a")[0], 4), terminal("stop")}, &pb.Usage{
			CompletionTokens: 1, DegradedRows: proto.Uint32(4), DegradedTokens: proto.Uint32(2), LowestThreshold: proto.Float64(0.6), UnitedWay: proto.Uint32(8),
		}},
		{"behind a stop string", []string{"a"}, append(costs(1, 2, 4), end(nil)), &pb.Usage{CompletionTokens: 1, ExpertGbS: proto.Float64(4), ColdStarts: proto.Uint32(1)}},
	} {
		accept := &pb.Accept{MaxTokens: 9, PromptTokens: tc.want.PromptTokens, Stop: tc.stop, Identity: &pb.Identity{}}
		last := func(records []*pb.Record) *pb.Usage {
			chunks := collect(accept, records)
			return chunks[len(chunks)-1].Usage
		}
		if got := last(tc.records); !proto.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		p := tokenlog.Packer{Limit: 1 << 20}
		p.Add(&pb.Record{Kind: &pb.Record_Accept{Accept: accept}})
		for _, r := range tc.records {
			p.Add(r)
		}
		whole := tokenlog.NewChain(tokenlog.Rules{Vocab: 26, Positions: 100, Version: 1})
		accept.Identity.Version = 1
		records, err := whole.Take(&pb.Record{Kind: &pb.Record_Packed{Packed: p.Packed()}})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if got := last(records[1:]); !proto.Equal(got, tc.want) {
			t.Errorf("%s, packed: %v, want %v", tc.name, got, tc.want)
		}
	}
}
