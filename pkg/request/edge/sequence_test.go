package edge

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What Resolve makes is taken, whatever one number of it is changed to is not.
func TestCheckSequence(t *testing.T) {
	m := demo()
	r, err := m.Resolve(&pb.Prompt{InputIds: []uint32{1, 2}, StopTokenIds: []uint32{3}, Score: "logits"}, now, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckSequence(r.Sequence); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*pb.Sequence){
		"0 prompt":               func(s *pb.Sequence) { s.PromptIds = nil },
		"prompt and 0 new":       func(s *pb.Sequence) { s.PromptIds, s.MaxTokens = make([]uint32, m.MaxLen+1), 0 },
		"2147483647 new tokens":  func(s *pb.Sequence) { s.MaxTokens = math.MaxInt32 },
		"-1 new tokens":          func(s *pb.Sequence) { s.MaxTokens = -1 },
		"token 4294967295":       func(s *pb.Sequence) { s.PromptIds[1] = math.MaxUint32 },
		"token 4294967294":       func(s *pb.Sequence) { s.StopTokenIds = []uint32{math.MaxUint32 - 1} },
		"stop token ids":         func(s *pb.Sequence) { s.StopTokenIds = make([]uint32, 1<<20) },
		`score is "all"`:         func(s *pb.Sequence) { s.Score = "all" },
		"logprobs is 2.147":      func(s *pb.Sequence) { s.Sampling.Logprobs = math.MaxInt32 },
		"logprobs is -2":         func(s *pb.Sequence) { s.Sampling.Logprobs = -2 },
		"top_k is -1":            func(s *pb.Sequence) { s.Sampling.TopK = -1 },
		"top_p is NaN":           func(s *pb.Sequence) { s.Sampling.TopP = float32(math.NaN()) },
		"temperature is +Inf":    func(s *pb.Sequence) { s.Sampling.Temperature = float32(math.Inf(1)) },
		"presence_penalty is 3":  func(s *pb.Sequence) { s.Sampling.PresencePenalty = 3 },
		"frequency_penalty is N": func(s *pb.Sequence) { s.Sampling.FrequencyPenalty = float32(math.NaN()) },
		"min_p is -1":            func(s *pb.Sequence) { s.Sampling.MinP = -1 },
		"min_tokens is 2.147":    func(s *pb.Sequence) { s.Sampling.MinTokens = math.MaxInt32 },
		"logit_bias has 1025":    func(s *pb.Sequence) { s.Sampling.LogitBias = make([]*pb.TokenBias, 1025) },
		"logit_bias of token 25": func(s *pb.Sequence) { s.Sampling.LogitBias = []*pb.TokenBias{{Id: 256}} },
		"logit_bias of token 1":  func(s *pb.Sequence) { s.Sampling.LogitBias = []*pb.TokenBias{{Id: 1, Bias: float32(math.Inf(1))}} },
		"repetition_penalty is ": func(s *pb.Sequence) { s.Sampling.RepetitionPenalty = -1 },
	} {
		s := proto.CloneOf(r.Sequence)
		change(s)
		if err := m.CheckSequence(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
