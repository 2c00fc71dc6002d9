package delivery

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// halves is a Detokenizer that keeps every odd token's text back, as incomplete
// characters are kept, until the next one or the end.
type halves struct{ kept string }

func (h *halves) Push(id uint32) string {
	h.kept += string(rune('a' + id))
	if len(h.kept)%2 == 1 {
		return ""
	}
	return h.Flush()
}

func (h *halves) Flush() string {
	text := h.kept
	h.kept = ""
	return text
}

func chunksOf(accept *pb.Accept, d Detokenizer, records []*pb.Record) (chunks []*pb.Chunk) {
	a := newAnswer("r", accept, d)
	for _, r := range records {
		if c := a.push(r); c != nil {
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// drawLog draws a request's records as they can lie in its log: scores, claims
// of several owners, tokens, an end.
func drawLog(t *rapid.T, accept *pb.Accept) (records []*pb.Record) {
	for p := range accept.PromptTokens {
		records = append(records, &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: p}}})
	}
	n := rapid.Int32Range(0, accept.MaxTokens).Draw(t, "tokens")
	for i := range n {
		if rapid.Bool().Draw(t, "claim") {
			records = append(records, &pb.Record{Epoch: uint64(i), Kind: &pb.Record_Claim{}})
		}
		tok := &pb.Token{Index: i, Id: rapid.Uint32Range(0, 3).Draw(t, "id")}
		records = append(records, &pb.Record{Kind: &pb.Record_Token{Token: tok}})
	}
	return append(records, terminal(rapid.SampledFrom([]string{"length", "cancelled", "error"}).Draw(t, "reason")))
}

// Chunks are a function of the log: whoever makes them again makes the same
// bytes, also from a log in which records lie twice.
func TestAnswerAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accept := &pb.Accept{
			MaxTokens: rapid.Int32Range(1, 12).Draw(t, "max"), PromptTokens: rapid.Int32Range(0, 3).Draw(t, "prompt"), Seed: 5,
			Stop: rapid.SliceOfN(rapid.StringMatching(`[a-d]{1,3}`), 0, 2).Draw(t, "stop"),
		}
		records := drawLog(t, accept)
		first := chunksOf(accept, &halves{}, records)
		var twice []*pb.Record
		for _, r := range records {
			twice = append(twice, r)
			if r.GetToken() != nil || r.GetTerminal() != nil {
				twice = append(twice, r)
			}
		}
		again := chunksOf(accept, &halves{}, twice)
		if !slices.EqualFunc(first, again, func(a, b *pb.Chunk) bool { return proto.Equal(a, b) }) {
			t.Fatalf("%v\nand %v", first, again)
		}
		last := first[len(first)-1]
		if last.FinishReason == "" || last.Usage == nil || last.Timings == nil || last.Usage.PromptTokens != accept.PromptTokens {
			t.Fatalf("the last chunk is %v", last)
		}
		for i, c := range first {
			if c.RequestId != "r" || c.Seed != 5 || i > 0 && c.Index <= first[i-1].Index {
				t.Fatalf("chunk %d: %v after %v", i, c, first[max(i-1, 0)])
			}
		}
	})
}

func TestWants(t *testing.T) {
	for _, tc := range []struct {
		chunk *pb.Chunk
		from  int32
		want  bool
	}{
		{&pb.Chunk{Index: 3}, 0, true},
		{&pb.Chunk{Index: 3}, 3, true},
		{&pb.Chunk{Index: 3}, 4, false},
		{&pb.Chunk{Index: 3, FinishReason: "stop"}, 9, true},
		{&pb.Chunk{Index: -2, Score: &pb.Score{}}, 0, true},
		{&pb.Chunk{Index: -2, Score: &pb.Score{}}, 1, false},
	} {
		if got := wants(tc.chunk, Beginning(tc.from)); got != tc.want {
			t.Errorf("%v from %d: %v", tc.chunk, tc.from, got)
		}
	}
}

func (*halves) Piece(id uint32) []byte { return []byte{byte(id)} }
