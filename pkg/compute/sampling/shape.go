package sampling

import "math"

// barred is the logit of a token that may not be chosen. Of such tokens none is reported.
var barred = float32(math.Inf(-1))

// shape does to logits what comes before temperature. A history's last index tokens were generated.
func (s *Sampler) shape(logits []float32, p *Params, history []uint32, index int) {
	for _, b := range p.Bias {
		if int(b.ID) < len(logits) {
			logits[b.ID] += b.Value
		}
	}
	if index < p.MinTokens {
		for _, id := range p.Ends {
			if int(id) < len(logits) {
				logits[id] = barred
			}
		}
	}
	if p.Allowed != nil {
		s.restrict(logits, p)
	}
	if p.RepetitionPenalty != 1 && p.RepetitionPenalty != 0 {
		s.penaliseRepetition(logits, p.RepetitionPenalty, history)
	}
	if p.PresencePenalty != 0 || p.FrequencyPenalty != 0 {
		s.penaliseUse(logits, p, history[max(0, len(history)-index):])
	}
}

// restrict bars what is not allowed.
func (s *Sampler) restrict(logits []float32, p *Params) {
	s.scaled = s.scaled[:0]
	for _, id := range p.Ends {
		if int(id) < len(logits) {
			s.scaled = append(s.scaled, logits[id])
		}
	}
	for i := 0; i < len(logits); i += 64 {
		word := uint64(0)
		if i/64 < len(p.Allowed) {
			word = p.Allowed[i/64]
		}
		if word == ^uint64(0) {
			continue
		}
		row := logits[i:min(i+64, len(logits))]
		for j := range row {
			if word>>j&1 == 0 {
				row[j] = barred
			}
		}
	}
	kept := s.scaled
	for _, id := range p.Ends {
		if int(id) >= len(logits) {
			continue
		}
		if logits[id] = barred; p.MayEnd {
			logits[id] = kept[0]
		}
		kept = kept[1:]
	}
}

// penaliseRepetition makes tokens that occurred less likely, each once.
func (s *Sampler) penaliseRepetition(logits []float32, penalty float32, history []uint32) {
	for _, id := range s.count(len(logits), history) {
		if int(id) >= len(logits) || s.counts[id] == 0 {
			continue
		}
		s.counts[id] = 0
		if logits[id] > 0 {
			logits[id] /= penalty
		} else {
			logits[id] *= penalty
		}
	}
}

// penaliseUse takes from the logits of tokens that were generated, for each time and for
// all of them (OpenAI's and vLLM's formula).
func (s *Sampler) penaliseUse(logits []float32, p *Params, generated []uint32) {
	for _, id := range s.count(len(logits), generated) {
		if int(id) >= len(logits) || s.counts[id] == 0 {
			continue
		}
		often := float32(p.FrequencyPenalty * float32(s.counts[id])) // rounded, not fused with what follows
		s.counts[id] = 0
		logits[id] -= often
		logits[id] -= p.PresencePenalty
	}
}

// count counts tokens, and returns them. The caller sets their counts to 0 again.
func (s *Sampler) count(vocab int, tokens []uint32) []uint32 {
	if len(s.counts) < vocab {
		s.counts = make([]int32, vocab)
	}
	for _, id := range tokens {
		if int(id) < vocab {
			s.counts[id]++
		}
	}
	return tokens
}
