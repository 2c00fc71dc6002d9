package edge

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Bounds of sampling; those of the last three are OpenAI's, but for the number of biases.
const (
	maxLogprobs    = 20
	maxTemperature = 100
	maxPenalty     = 100
	maxBiases      = 1024
	maxBias        = 100
	maxUsePenalty  = 2
)

// number is a field that has to lie within bounds.
type number struct {
	name     string
	set      bool
	value    float64
	min, max float64
	above    bool // min itself is too small
}

// holds is false of NaN. What must be above a bound is that in the precision it is used in.
func (n number) holds() bool {
	return n.value >= n.min && n.value <= n.max && (!n.above || float32(n.value) > float32(n.min))
}

// vanishes is true of what is above a bound of 0 only in more bits than it is used in.
func (n number) vanishes() bool { return n.above && n.value > n.min && float32(n.value) == 0 }

func (n number) bounds() string {
	if n.above {
		return fmt.Sprintf("above %.10g and at most %.10g", n.min, n.max)
	}
	return fmt.Sprintf("from %.10g to %.10g", n.min, n.max)
}

func checkSampling(p *pb.Prompt) error {
	for _, n := range []number{
		{name: "temperature", set: p.Temperature != nil, value: p.GetTemperature(), max: maxTemperature},
		{name: "top_p", set: p.TopP != nil, value: p.GetTopP(), max: 1, above: true},
		{name: "top_k", set: p.TopK != nil, value: float64(p.GetTopK()), max: math.MaxInt32},
		{name: "repetition_penalty", set: p.RepetitionPenalty != nil, value: p.GetRepetitionPenalty(), min: 1.0 / maxPenalty, max: maxPenalty},
		{name: "presence_penalty", set: p.PresencePenalty != nil, value: p.GetPresencePenalty(), min: -maxUsePenalty, max: maxUsePenalty},
		{name: "frequency_penalty", set: p.FrequencyPenalty != nil, value: p.GetFrequencyPenalty(), min: -maxUsePenalty, max: maxUsePenalty},
		{name: "min_p", set: p.MinP != nil, value: p.GetMinP(), max: 1},
		{name: "min_tokens", set: p.MinTokens != nil, value: float64(p.GetMinTokens()), max: math.MaxInt32},
		{name: "logprobs", set: p.Logprobs != nil, value: float64(p.GetLogprobs()), max: maxLogprobs},
		{name: "from_index", set: true, value: float64(p.FromIndex), max: math.MaxInt32},
	} {
		if n.set && n.vanishes() {
			return Errorf(BadRequest, "%s is %v, which is 0 in the 32 bits that it is used in; it must be 1.4e-45 or more", n.name, n.value)
		}
		if n.set && !n.holds() {
			return Errorf(BadRequest, "%s is %v; it must be a number %s", n.name, n.value, n.bounds())
		}
	}
	switch p.Score {
	case "", "logprobs", "logits":
		return nil
	}
	return Errorf(BadRequest, `score is %.40q; it must be "logprobs" or "logits"`, p.Score)
}

// checkTaskSampling refuses what has no meaning where tokens fill masks, all of them at once.
func (m Model) checkTaskSampling(p *pb.Prompt) error {
	if m.Task != model.Fill {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"presence_penalty", p.GetPresencePenalty() != 0}, {"frequency_penalty", p.GetFrequencyPenalty() != 0}, {"min_tokens", p.GetMinTokens() != 0},
	} {
		if f.set {
			return Errorf(BadRequest, "%s is set; this model fills masks, none before another: leave it out", f.name)
		}
	}
	return nil
}

// checkBias checks logit_bias, lowest id first.
func (m Model) checkBias(p *pb.Prompt) error {
	if n := len(p.LogitBias); n > maxBiases {
		return Errorf(BadRequest, "logit_bias has %d tokens; at most %d are allowed", n, maxBiases)
	}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		n := number{name: fmt.Sprintf("logit_bias[%d]", id), value: p.LogitBias[id], min: -maxBias, max: maxBias}
		if int64(id) >= int64(m.Vocab) {
			return Errorf(BadRequest, "logit_bias has token %d; the vocabulary has %d tokens", id, m.Vocab)
		}
		if !n.holds() {
			return Errorf(BadRequest, "%s is %v; it must be a number %s", n.name, n.value, n.bounds())
		}
	}
	return nil
}

// checkMinTokens refuses a least number of tokens that cannot be.
func (m Model) checkMinTokens(s *pb.Sequence) error {
	n := s.Sampling.MinTokens
	if n > s.MaxTokens {
		return Errorf(BadRequest, "min_tokens is %d; max_tokens is %d here, and it may not be more", n, s.MaxTokens)
	}
	if n > 0 && len(s.StopTokenIds) >= m.Vocab && len(slices.Compact(slices.Sorted(slices.Values(s.StopTokenIds)))) >= m.Vocab {
		return Errorf(BadRequest, "min_tokens is %d, and every token of the vocabulary ends the answer: name fewer stop_token_ids", n)
	}
	return nil
}

// sampling resolves the request's settings over the model's over greedy.
func (m Model) sampling(p *pb.Prompt, seed uint32) *pb.Sampling {
	g := m.Generation
	s := &pb.Sampling{TopP: float32(g.TopP), TopK: int32(g.TopK), RepetitionPenalty: float32(g.RepetitionPenalty), Logprobs: -1, Seed: seed}
	if g.DoSample {
		s.Temperature = float32(g.Temperature)
	}
	if p.Temperature != nil {
		s.Temperature = float32(*p.Temperature)
	}
	if p.TopP != nil {
		s.TopP = float32(*p.TopP)
	}
	if p.TopK != nil {
		s.TopK = *p.TopK
	}
	if p.RepetitionPenalty != nil {
		s.RepetitionPenalty = float32(*p.RepetitionPenalty)
	}
	s.PresencePenalty, s.FrequencyPenalty = float32(p.GetPresencePenalty()), float32(p.GetFrequencyPenalty())
	s.MinP, s.MinTokens = float32(p.GetMinP()), p.GetMinTokens()
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		s.LogitBias = append(s.LogitBias, &pb.TokenBias{Id: id, Bias: float32(p.LogitBias[id])})
	}
	if p.Logprobs != nil {
		s.Logprobs = *p.Logprobs
	}
	if p.Seed != nil {
		s.Seed = *p.Seed
	}
	return s
}

// checkResolved bounds what requests and generation_config.json may say.
func (m Model) checkResolved(s *pb.Sampling) error {
	for _, n := range []struct {
		name            string
		value, min, max float64
	}{
		{"temperature", float64(s.GetTemperature()), 0, math.MaxFloat32},
		{"top_p", float64(s.GetTopP()), 0, 1},
		{"top_k", float64(s.GetTopK()), 0, math.MaxInt32},
		{"repetition_penalty", float64(s.GetRepetitionPenalty()), 0, math.MaxFloat32},
		{"presence_penalty", float64(s.GetPresencePenalty()), -maxUsePenalty, maxUsePenalty},
		{"frequency_penalty", float64(s.GetFrequencyPenalty()), -maxUsePenalty, maxUsePenalty},
		{"min_p", float64(s.GetMinP()), 0, 1},
		{"min_tokens", float64(s.GetMinTokens()), 0, float64(m.MaxLen)},
		{"logprobs", float64(s.GetLogprobs()), -1, maxLogprobs},
	} {
		if !(n.value >= n.min && n.value <= n.max) { // so that NaN fails
			return fmt.Errorf("%s is %v; it must be a number from %v to %v", n.name, n.value, n.min, n.max)
		}
	}
	if n := len(s.GetLogitBias()); n > maxBiases {
		return fmt.Errorf("logit_bias has %d tokens", n)
	}
	for _, b := range s.GetLogitBias() {
		if int64(b.Id) >= int64(m.Vocab) || !(b.Bias >= -maxBias && b.Bias <= maxBias) {
			return fmt.Errorf("logit_bias of token %d is %v", b.Id, b.Bias)
		}
	}
	return nil
}

// ParamsOf returns how a sequence's tokens are chosen. Some of it counts tokens: their ids are all
// that is needed, so whoever goes on with a sequence that another began goes on with the same.
func ParamsOf(seq *pb.Sequence) sampling.Params {
	s := seq.Sampling
	p := sampling.Params{
		Temperature: s.GetTemperature(), TopP: s.GetTopP(), TopK: int(s.GetTopK()), MinP: s.GetMinP(),
		RepetitionPenalty: s.GetRepetitionPenalty(), PresencePenalty: s.GetPresencePenalty(), FrequencyPenalty: s.GetFrequencyPenalty(),
		MinTokens: int(s.GetMinTokens()), Ends: seq.StopTokenIds, Seed: s.GetSeed(), Logprobs: int(s.GetLogprobs()),
	}
	for _, b := range s.GetLogitBias() {
		p.Bias = append(p.Bias, sampling.Bias{ID: b.Id, Value: b.Bias})
	}
	return p
}

// SamplingOf returns what must be known to sample a sequence as it asks (schemas.Sampling).
func SamplingOf(seq *pb.Sequence) uint32 {
	s := seq.GetSampling()
	switch {
	case len(seq.Calls) > 0:
		return 3
	case seq.Grammar != nil:
		return 2
	}
	if s.GetPresencePenalty() != 0 || s.GetFrequencyPenalty() != 0 || s.GetMinP() != 0 || s.GetMinTokens() != 0 || len(s.GetLogitBias()) > 0 {
		return 1
	}
	return 0
}
