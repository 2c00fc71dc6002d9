package edge

import (
	"fmt"
	"math"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Work is how many tokens a sequence takes at most: those of its prompt, and
// those that may be generated.
func Work(s *pb.Sequence) float64 { return float64(len(s.PromptIds)) + float64(s.MaxTokens) }

// CheckSequence says what of a sequence cannot come from Resolve. Memory and
// loops follow its numbers, so whoever works on one looks at them first.
func (m Model) CheckSequence(s *pb.Sequence) error {
	n := len(s.PromptIds)
	switch {
	case n == 0 || s.MaxTokens < 0 || int64(s.Source) > int64(n) || Positions(s) > m.MaxLen:
		return fmt.Errorf("%d prompt and %d new tokens do not fit this replica's context of %d: give all services the same --max-model-len",
			n, s.MaxTokens, m.MaxLen)
	case len(s.StopTokenIds) > maxStopIDs+m.Vocab: // the request's and the model's
		return fmt.Errorf("it has %d stop token ids", len(s.StopTokenIds))
	case s.Score != "" && s.Score != "logprobs" && s.Score != "logits":
		return fmt.Errorf("score is %q", s.Score)
	}
	for _, ids := range [][]uint32{s.PromptIds, s.StopTokenIds} {
		for _, id := range ids {
			if int64(id) >= int64(m.Vocab) {
				return fmt.Errorf("token %d is outside the vocabulary of %d", id, m.Vocab)
			}
		}
	}
	if err := m.checkSource(s); err != nil {
		return err
	}
	return checkResolved(s.GetSampling())
}

// checkResolved bounds what requests and generation_config.json may say.
func checkResolved(s *pb.Sampling) error {
	for _, n := range []struct {
		name            string
		value, min, max float64
	}{
		{"temperature", float64(s.GetTemperature()), 0, math.MaxFloat32},
		{"top_p", float64(s.GetTopP()), 0, 1},
		{"top_k", float64(s.GetTopK()), 0, math.MaxInt32},
		{"repetition_penalty", float64(s.GetRepetitionPenalty()), 0, math.MaxFloat32},
		{"logprobs", float64(s.GetLogprobs()), -1, maxLogprobs},
	} {
		if !(n.value >= n.min && n.value <= n.max) { // so that NaN fails
			return fmt.Errorf("%s is %v; it must be a number from %v to %v", n.name, n.value, n.min, n.max)
		}
	}
	return nil
}
