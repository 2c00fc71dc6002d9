package tokenlog

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func accept(a *pb.Accept) *pb.Record { return &pb.Record{Kind: &pb.Record_Accept{Accept: a}} }

func claimOf(epoch uint64) *pb.Record {
	return &pb.Record{Epoch: epoch, Writer: "a", Kind: &pb.Record_Claim{Claim: &pb.Claim{}}}
}

func tokenIn(epoch uint64, index int32, id uint32) *pb.Record {
	return &pb.Record{Epoch: epoch, Kind: &pb.Record_Token{Token: &pb.Token{Index: index, Id: id}}}
}

func scoreIn(epoch uint64, position int32) *pb.Record {
	return &pb.Record{Epoch: epoch, Kind: &pb.Record_Score{Score: &pb.Score{Position: position}}}
}

func failure(code string) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: code}}}}
}

// bytesOf is a record as it lies in the log.
func bytesOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	if r, ok := m.(*pb.Record); ok {
		r.Format = schemas.RecordFormat
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readAll is what a reader makes of messages.
func readAll(messages [][]byte) (records []*pb.Record, c Chain) {
	c = NewChain(rules)
	for i, data := range messages {
		e, err := decode(bus.Stored{Data: data, Sequence: uint64(i + 1)})
		if err != nil {
			continue
		}
		more, _ := c.Take(e.Record)
		records = append(records, more...)
	}
	return records, c
}

// filling is an opening whose two tokens fill places of its prompt.
func filling(places ...uint32) *pb.Accept {
	a := opening(0)
	a.MaxTokens, a.FilledIds, a.Fill = 2, make([]uint32, a.PromptTokens), places
	return a
}

func TestChainTakesFills(t *testing.T) {
	c := NewChain(rules)
	if _, err := c.Take(accept(filling(0, 2))); err != nil {
		t.Error(err)
	}
}

// costing gives a record a cost.
func costing(r *pb.Record, gbs float64) *pb.Record {
	c := &pb.Cost{ExpertGbS: gbs}
	if t := r.GetToken(); t != nil {
		t.Cost = c
	} else {
		r.GetTerminal().Cost = c
	}
	return r
}

func TestChainRefuses(t *testing.T) {
	begun := []*pb.Record{accept(opening(0)), claimOf(1), tokenIn(1, 0, 5)}
	foreign, large, two := opening(0), opening(0), opening(2)
	foreign.Identity.Model, large.MaxTokens = 8, 9_999
	unplaced, outside, disordered := filling(0), filling(0, 5), filling(1, 1)
	stop := tokenIn(1, 1, 5)
	stop.GetToken().Stop = true
	for _, tc := range []struct {
		name   string
		before []*pb.Record
		r      *pb.Record
		broken bool
	}{
		{"another model", nil, accept(foreign), false},
		{"more than the model's positions", nil, accept(large), false},
		{"more tokens than places", nil, accept(unplaced), false},
		{"place outside the prompt", nil, accept(outside), false},
		{"places out of order", nil, accept(disordered), false},
		{"second acceptance", begun, accept(two), false},
		{"claim first", nil, claimOf(1), true},
		{"token first", nil, tokenIn(1, 7, 5), true},
		{"token before a claim", begun[:1], tokenIn(0, 0, 5), false},
		{"same claim", begun, claimOf(1), false},
		{"claim far ahead", begun, claimOf(1<<64 - 1), false},
		{"stale token", append(begun[:3:3], claimOf(2)), tokenIn(1, 1, 5), false},
		{"token again", begun, tokenIn(1, 0, 6), false},
		{"negative token", begun, tokenIn(1, -1, 6), false},
		{"gap", begun, tokenIn(1, 2, 5), true},
		{"cost that is no number", begun, costing(tokenIn(1, 1, 5), math.NaN()), false},
		{"cost below nothing", begun, costing(tokenIn(1, 1, 5), -1), false},
		{"end of an endless cost", begun, costing(terminal("stop"), math.Inf(1)), false},
		{"outside the vocabulary", begun, tokenIn(1, 1, 10_000), false},
		{"beyond max_tokens", begun, tokenIn(1, 5000, 5), false},
		{"after a stop", append(begun[:3:3], stop), tokenIn(1, 2, 5), false},
		{"score after tokens", begun, scoreIn(1, 0), false},
		{"gap of scores", begun[:2], scoreIn(1, 1), true},
		{"score beyond the prompt", begun[:2], scoreIn(1, 5), false},
		{"no reason", begun, terminal(""), false},
		{"unknown reason", begun, terminal("done"), false},
		{"early length", begun, terminal("length"), false},
		{"error without code", begun, failure(""), false},
		{"after the end", append(begun[:3:3], terminal("stop")), tokenIn(1, 1, 5), false},
		{"second end", append(begun[:3:3], terminal("stop")), terminal("stop"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewChain(rules)
			for _, r := range tc.before {
				if _, err := c.Take(r); err != nil {
					t.Fatal(err)
				}
			}
			records, err := c.Take(tc.r)
			if !errors.Is(err, ErrNoise) || len(records) > 0 || (c.Broken() != nil) != tc.broken {
				t.Errorf("%v, error %v, broken %v", records, err, c.Broken())
			}
			if end := failure("internal"); c.End() == nil {
				if _, err := c.Take(end); err != nil {
					t.Errorf("cannot be ended: %v", err)
				}
			}
		})
	}
}

// wholeLog draws a log as owners write it.
func wholeLog(t *rapid.T) []*pb.Record {
	a := opening(3)
	a.MaxTokens = int32(rapid.IntRange(0, 12).Draw(t, "max"))
	log := []*pb.Record{accept(a)}
	epoch, logprobs := uint64(0), rapid.Bool().Draw(t, "logprobs")
	claims := func() {
		for epoch == 0 || rapid.IntRange(0, 4).Draw(t, "claim") == 0 {
			epoch++
			log = append(log, claimOf(epoch))
		}
	}
	for p := range rapid.IntRange(0, 5).Draw(t, "scores") {
		claims()
		log = append(log, scoreIn(epoch, int32(p)))
	}
	n := rapid.IntRange(0, int(a.MaxTokens)).Draw(t, "tokens")
	for i := range n {
		claims()
		r := tokenIn(epoch, int32(i), rapid.Uint32Range(0, 9_999).Draw(t, "id"))
		if logprobs {
			r.GetToken().Logprobs = &pb.TokenLogprobs{Index: int32(i), Chosen: &pb.TokenLogprob{Id: 3}}
		}
		log = append(log, r)
	}
	reason := "cancelled"
	if n == int(a.MaxTokens) {
		reason = "length"
	}
	return append(log, terminal(reason))
}

// noise draws a message that is no record, or none that follows.
func noise(t *rapid.T) []byte {
	foreign := opening(9)
	foreign.Identity = &pb.Identity{Version: 99, Model: 7}
	switch rapid.IntRange(0, 9).Draw(t, "noise") {
	case 0:
		return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	case 1:
		return bytesOf(tb(t), &pb.Chunk{RequestId: "r", Index: 4, FinishReason: "stop", Usage: &pb.Usage{PromptTokens: 1}})
	case 2:
		return bytesOf(tb(t), &pb.Sequence{RequestId: "r", PromptIds: []uint32{1}, Accept: opening(3)})
	case 3:
		return bytesOf(tb(t), &pb.Record{})
	case 4:
		return bytesOf(tb(t), accept(foreign))
	case 5:
		return bytesOf(tb(t), claimOf(rapid.Uint64Range(1<<20, 1<<64-1).Draw(t, "epoch")))
	case 6:
		return bytesOf(tb(t), tokenIn(rapid.Uint64Range(1<<20, 1<<64-1).Draw(t, "epoch"), rapid.Int32Range(0, 20).Draw(t, "index"), 1))
	case 7:
		return bytesOf(tb(t), terminal(rapid.SampledFrom([]string{"", "done", "error"}).Draw(t, "reason")))
	case 8:
		return bytesOf(tb(t), &pb.Record{Kind: &pb.Record_Packed{Packed: &pb.Packed{Accept: opening(3), TokenIds: []uint32{1}}}})
	}
	unmarked := terminal("stop")
	unmarked.Format = 0
	data, _ := proto.Marshal(unmarked)
	return data
}

func tb(t *rapid.T) testing.TB { return fails{fail: t.Fatalf} }

// fails is the part of testing.TB that helpers here use.
type fails struct {
	testing.TB
	fail func(string, ...any)
}

func (f fails) Helper()           {}
func (f fails) Fatal(args ...any) { f.fail("%v", args) }

func sameRecords(a, b []*pb.Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !proto.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Whatever lies between a log's records, readers make the same of it.
func TestNoiseChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clean, noisy [][]byte
		for i, r := range wholeLog(t) {
			// Nothing of ours comes before an acceptance, or the log is not whole.
			for range rapid.IntRange(0, 2).Draw(t, "between") {
				if n := noise(t); i > 0 {
					noisy = append(noisy, n)
				}
			}
			clean, noisy = append(clean, bytesOf(tb(t), r)), append(noisy, bytesOf(tb(t), r))
		}
		want, _ := readAll(clean)
		got, c := readAll(noisy)
		if len(want) != len(clean) || !sameRecords(got, want) || c.Broken() != nil || c.End() == nil {
			t.Fatalf("%d records, with noise %d, want %d; broken: %v", len(want), len(got), len(clean), c.Broken())
		}
	})
}

// A packed log gives a reader what it lacks, wherever it was, and no more.
func TestPackedUnfolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := wholeLog(t)
		packer := Packer{Limit: 1 << 20}
		for _, r := range log {
			packer.Add(r)
		}
		packed := bytesOf(tb(t), &pb.Record{Kind: &pb.Record_Packed{Packed: packer.Packed()}})
		seen := rapid.IntRange(0, len(log)).Draw(t, "seen")
		var messages [][]byte
		for _, r := range log[:seen] {
			messages = append(messages, bytesOf(tb(t), r))
		}
		got, c := readAll(append(messages, packed, packed))
		if want := bare(log); !sameRecords(bare(got), want) || c.End() == nil || c.Broken() != nil {
			t.Fatalf("after %d records:\n%v\nwant\n%v", seen, bare(got), want)
		}
	})
}

// bare leaves out what a packed log does not keep: claims and epochs.
func bare(records []*pb.Record) (out []*pb.Record) {
	for _, r := range records {
		if r.GetClaim() == nil {
			out = append(out, &pb.Record{Kind: r.Kind})
		}
	}
	return out
}

func TestPackerLimit(t *testing.T) {
	p := Packer{Limit: 100}
	for _, r := range []*pb.Record{accept(opening(0)), terminal("stop")} {
		p.Add(r)
	}
	if p.Packed() == nil {
		t.Error("a short log was not packed")
	}
	p = Packer{Limit: 100}
	for i := range 200 {
		p.Add(tokenIn(1, int32(i), 5))
	}
	if p.Add(terminal("stop")); p.Packed() != nil {
		t.Error("a long log was packed")
	}
}

// Whatever bytes lie in a log: a reader neither fails nor believes them, and
// what it believes is in order.
func FuzzChain(f *testing.F) {
	seed := []*pb.Record{accept(opening(0)), claimOf(1), tokenIn(1, 0, 5), terminal("stop"), {Kind: &pb.Record_Packed{Packed: &pb.Packed{}}}}
	for _, r := range seed {
		f.Add(bytesOf(f, r), bytesOf(f, seed[2]))
	}
	f.Add([]byte("\xff\xff"), []byte(strings.Repeat("\x00", 9)))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		begun := [][]byte{bytesOf(t, accept(opening(0))), bytesOf(t, claimOf(1)), bytesOf(t, tokenIn(1, 0, 5))}
		for _, messages := range [][][]byte{{a, b}, append(begun, a, b)} {
			records, c := readAll(messages)
			next := int32(0)
			for _, r := range records {
				if tok := r.GetToken(); tok != nil {
					if tok.Index != next || int(tok.Id) >= rules.Vocab {
						t.Fatalf("%v", records)
					}
					next++
				}
			}
			if c.Tokens() != next || len(records) > 0 && records[0].GetAccept() == nil && c.End() == nil {
				t.Fatalf("%d tokens: %v", c.Tokens(), records)
			}
		}
	})
}

// Tokens of a packed log have the fates that they had.
func TestPackedFates(t *testing.T) {
	first, third := tokenIn(1, 0, 5), tokenIn(1, 2, 6)
	first.GetToken().Fates = []*pb.Fates{{Rows: 3, Layers: 1, Slots: 2}, {Rows: 1, Layers: 1, Slots: 2, Codes: []byte{2, 4}}}
	third.GetToken().Fates = []*pb.Fates{{Rows: 1, Layers: 1, Slots: 2, Omitted: true}}
	log := []*pb.Record{accept(opening(0)), first, tokenIn(1, 1, 4), third, terminal("stop")}
	p := Packer{Limit: 1 << 20}
	for _, r := range log {
		p.Add(r)
	}
	if got := unfold(p.Packed()); !sameRecords(bare(got), bare(log)) {
		t.Errorf("%v, want %v", bare(got), bare(log))
	}
	small := Packer{Limit: 80}
	first.GetToken().Fates[1].Codes = make([]byte, 100)
	for _, r := range log {
		small.Add(r)
	}
	if small.Packed() != nil {
		t.Error("fates do not count against the limit")
	}
}
