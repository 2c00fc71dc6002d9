package edge

import (
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Work returns how many tokens a sequence takes at most: those of its prompt, and
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
	return m.checkResolved(s.GetSampling())
}
