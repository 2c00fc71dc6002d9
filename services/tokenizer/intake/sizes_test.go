package intake

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
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
