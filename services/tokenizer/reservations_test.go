package tokenizer

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Large answers may fill a part of the token log, whatever runs: the rest is for
// small ones.
func TestRoomForSmallOnes(t *testing.T) {
	t.Parallel()
	const bound = 1000
	for _, tc := range []struct {
		name            string
		bytes, reserved int64
		need            need
		want            edge.Code
	}{
		{"small, to the end", 800, 100, need{50, false}, ""},
		{"small, beyond", 800, 100, need{51, false}, edge.Overloaded},
		{"small, too large", 0, 0, need{951, false}, edge.PayloadTooLarge},
		{"large, to its part", 300, 100, need{75, true}, ""},
		{"large, beyond", 300, 100, need{76, true}, edge.Overloaded},
		{"large, too large", 0, 0, need{476, true}, edge.PayloadTooLarge},
		{"small, where large ones are refused", 475, 0, need{475, false}, ""},
	} {
		l := probe.Level{Stream: "S", Bytes: tc.bytes, Bound: bound}
		var got *edge.Error
		errors.As(hold(l, tc.reserved, tc.need), &got)
		if (got == nil) != (tc.want == "") || got != nil && got.Code != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, got, tc.want)
		}
	}
	if err := hold(probe.Level{}, 1<<60, need{1 << 60, true}); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

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
		if got := packedBytes(tc.seq, vocab); (got > largeLog(4<<30)) != tc.large {
			t.Errorf("%s: %d bytes packed", name, got)
		}
		if packed, log := packedBytes(tc.seq, vocab), logBytes("subject", tc.seq, vocab); packed > log {
			t.Errorf("%s: %d bytes packed, %d before", name, packed, log)
		}
	}
	if small := largeLog(1 << 20); small != tokenlog.Writable(1<<20)/16 {
		t.Errorf("in a small stream from %d bytes on", small)
	}
}
