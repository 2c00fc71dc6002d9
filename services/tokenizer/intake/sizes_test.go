package intake

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// Which logs stay large when they were delivered.
func TestLargeLogs(t *testing.T) {
	t.Parallel()
	const vocab = 128 << 10
	ids := make([]uint32, 4096)
	for name, tc := range map[string]struct {
		seq   *pb.Sequence
		large bool
	}{
		"a long answer":            {&pb.Sequence{MaxTokens: 64 << 10, Sampling: &pb.Sampling{Logprobs: -1}}, false},
		"with some candidates":     {&pb.Sequence{MaxTokens: 1024, Sampling: &pb.Sampling{Logprobs: 20}}, false},
		"with candidates of all":   {&pb.Sequence{MaxTokens: 4096, Sampling: &pb.Sampling{Logprobs: 20}}, true},
		"a prompt's probabilities": {&pb.Sequence{PromptIds: ids, Score: "logprobs", Sampling: &pb.Sampling{Logprobs: -1}}, false},
		"a prompt's logits":        {&pb.Sequence{PromptIds: ids, Score: "logits", Sampling: &pb.Sampling{Logprobs: -1}}, true},
		"one logit of it":          {&pb.Sequence{PromptIds: ids[:1], Score: "logits", Sampling: &pb.Sampling{Logprobs: -1}}, true},
	} {
		if got := packedBytes(tc.seq, vocab); (got > admission.LargeLog(4<<30)) != tc.large {
			t.Errorf("%s: %d bytes packed", name, got)
		}
		if packed, log := packedBytes(tc.seq, vocab), logBytes("subject", tc.seq, vocab); packed > log {
			t.Errorf("%s: %d bytes packed, %d before", name, packed, log)
		}
	}
	if small := admission.LargeLog(1 << 20); small != tokenlog.Writable(1<<20)/16 {
		t.Errorf("in a small stream from %d bytes on", small)
	}
}

// The log of a request of which every slot is degraded fits into what is reserved for it, token by
// token and packed.
func TestDegradedLogsFit(t *testing.T) {
	t.Parallel()
	const subject = "switchyard.token.demo.63.request"
	rapid.Check(t, func(t *rapid.T) {
		layers, slots := rapid.IntRange(1, 48).Draw(t, "layers"), rapid.IntRange(1, 8).Draw(t, "slots")
		prompt, answer := rapid.IntRange(1, 60).Draw(t, "prompt"), rapid.IntRange(1, 60).Draw(t, "answer")
		seq := &pb.Sequence{PromptIds: make([]uint32, prompt), MaxTokens: int32(answer), Sampling: &pb.Sampling{Logprobs: -1}}
		degraded := &pb.Degraded{Rows: 1 << 31, Tokens: 1 << 31, LowestMillionths: 1_000_000, Way: 1 << 31}
		cost := &pb.Cost{ExpertGbS: 1e300, ColdStarts: 1 << 31}
		packed := &pb.Packed{Accept: &pb.Accept{Sequence: seq}, Cost: cost, Degraded: degraded, Terminal: &pb.Terminal{FinishReason: "length", Cost: cost, Degraded: degraded}}
		log := tokenlog.StoredSize(subject, int64(proto.Size(&pb.Record{Kind: &pb.Record_Accept{Accept: packed.Accept}})))
		for i := range answer {
			rows := []int{1}
			if i == 0 {
				rows = cuts(t, prompt)
			}
			token := &pb.Token{Index: int32(i), Id: 1 << 31, Stop: true, Cost: cost, Degraded: degraded}
			for _, n := range rows {
				token.Fates = append(token.Fates, allDegraded(wire.FatesShape{Rows: n, Layers: layers, Slots: slots}))
			}
			packed.TokenIds, packed.Fates = append(packed.TokenIds, token.Id), append(packed.Fates, &pb.TokenFates{Index: token.Index, Fates: token.Fates})
			log += tokenlog.StoredSize(subject, int64(proto.Size(&pb.Record{Format: schemas.RecordFormat, Epoch: 1000, Kind: &pb.Record_Token{Token: token}})))
		}
		brownout := degradedBytes(seq, layers*slots)
		if reserved := logBytes(subject, seq, 1<<17) + brownout; log > reserved {
			t.Errorf("a log of %d bytes, for which %d are reserved", log, reserved)
		}
		whole := int64(proto.Size(&pb.Record{Kind: &pb.Record_Packed{Packed: packed}}))
		if reserved := packedBytes(seq, 1<<17) + brownout; whole > reserved {
			t.Errorf("%d bytes packed, for which %d are reserved", whole, reserved)
		}
	})
}

// cuts are the rows of each step in which a prompt is read.
func cuts(t *rapid.T, prompt int) (rows []int) {
	for prompt > 0 {
		n := rapid.IntRange(1, prompt).Draw(t, "rows")
		rows, prompt = append(rows, n), prompt-n
	}
	return rows
}

// allDegraded are fates in the longest form that there is.
func allDegraded(s wire.FatesShape) *pb.Fates {
	codes := make([]wire.FateCode, s.Rows*s.Layers*s.Slots)
	for i := range codes {
		codes[i] = wire.FateCode(1 + i%2)
	}
	f := wire.EncodeFates(s, codes)
	f.Way, f.Bundle = 512, 1<<63
	return f
}
