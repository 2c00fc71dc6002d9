// Package sampling chooses the next token from logits. Every choice is a pure
// function of the logits, the parameters, the tokens so far and the token's index,
// so a resumed request continues with the same tokens.
//
// What a request asks for is done in one order: biases, the bars on ends and of a grammar, repetition,
// frequency and presence penalty (shape.go); log-probabilities are of what is left by
// then. Greedy takes the best. Sampling divides by the temperature, keeps the top k, of
// these the nucleus of top-p, and of that what min-p allows: the order of transformers,
// which has no frequency and presence penalty. Those are vLLM's.
package sampling

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// Params is a request's resolved sampling.
type Params struct {
	// Temperature divides the logits; 0 is greedy, and so is what is so small
	// that the quotient could overflow.
	Temperature float32
	// TopP keeps the smallest set of tokens with at least this probability, in (0, 1].
	TopP float32
	// TopK keeps the K best tokens; 0 keeps all.
	TopK int
	// RepetitionPenalty divides positive and multiplies negative logits of
	// tokens that occurred; 1 is none (Keskar et al. 2019, section 4.1).
	RepetitionPenalty float32
	// PresencePenalty is taken from the logit of each token that was generated,
	// FrequencyPenalty as often as it was; 0 is none.
	PresencePenalty, FrequencyPenalty float32
	// MinP keeps the tokens with at least this share of the best one's probability; 0 keeps all.
	MinP float32
	Bias []Bias
	// Before so many tokens are generated, none of Ends is chosen.
	MinTokens int
	Ends      []uint32
	// Allowed has a bit for each token that may be chosen, but for Ends: those may if MayEnd
	// is set; nil: all may.
	Allowed []uint64
	MayEnd  bool
	// Seed keys the generator.
	Seed uint32
	// Logprobs is how many best candidates to report; negative: none, and not the chosen one either.
	Logprobs int
}

// Bias is what is added to the logit of a token.
type Bias struct {
	ID    uint32
	Value float32
}

// Candidate is a token and its natural-log probability before temperature.
type Candidate struct {
	ID      uint32
	Logprob float32
}

// Choice is a chosen token.
type Choice struct {
	ID uint32
	// Logprob of the chosen token and the best ones; only if asked for.
	Logprob float32
	Top     []Candidate
	// Unreal says that the logits are no finite numbers, so that the token says nothing.
	Unreal bool
}

// minTemperature is where sampling begins, as in vLLM.
const minTemperature = 1e-5

// Sampler holds buffers for one goroutine's use.
type Sampler struct {
	probs  []float32
	scaled []float32 // logits, of top-p
	order  []int32
	counts []int32 // of each token; all 0 between calls
}

// Next chooses the token of this index. It changes logits (vocab); history is
// the prompt and what was generated, the last index ones.
func (s *Sampler) Next(logits []float32, p Params, history []uint32, index int) Choice {
	s.shape(logits, &p, history, index)
	var c Choice
	if p.Temperature < minTemperature {
		c.ID = uint32(cpu.Argmax(logits))
	} else {
		c.ID = s.sample(logits, p, index)
	}
	c.Unreal = !finite(logits[c.ID]) || p.Temperature >= minTemperature && !finite(s.probs[c.ID])
	if p.Logprobs >= 0 {
		c.Logprob, c.Top = s.logprobs(logits, c.ID, p.Logprobs)
	}
	return c
}

func finite(x float32) bool { return x-x == 0 }

func (s *Sampler) sample(logits []float32, p Params, index int) uint32 {
	s.probs = append(s.probs[:0], logits...)
	cpu.Scale(s.probs, 1/p.Temperature)
	u := Uniform(p.Seed, index)
	if p.TopK == 0 && p.TopP >= 1 {
		cpu.Softmax(s.probs)
		if p.MinP > 0 {
			dropBelow(s.probs, p.MinP*slices.Max(s.probs))
		}
		return drawAll(s.probs, u)
	}
	s.rank(p)
	if len(s.order) == 0 {
		return uint32(cpu.Argmax(logits)) // not a number is among them: nothing ranks
	}
	return s.drawRanked(p, u)
}

// rank orders the candidates that top-k and top-p can keep, best first (ties
// to the lower id), and leaves their probabilities in s.probs.
func (s *Sampler) rank(p Params) {
	s.order = s.order[:0]
	if p.TopK == 0 {
		s.rankNucleus(p.TopP)
		return
	}
	floor := nucleusFloor(s.probs, p.TopP)
	if p.TopK < len(s.probs) {
		floor = s.kthLargest(p.TopK)
	}
	s.append(s.probs, floor, noBound)
	s.order = s.order[:min(p.TopK, len(s.order))]
	s.maskOthers()
	cpu.Softmax(s.probs)
}

// nucleusFloor returns a logit below which no token can be in the nucleus: all such tokens
// together have less than 1 - top_p of the best one's weight.
func nucleusFloor(logits []float32, topP float32) float32 {
	return slices.Max(logits) + float32(math.Log((1-float64(topP))/float64(len(logits))))
}

// rankNucleus orders candidates in bands of logits, from the best one's on, until they have the
// share: of a flat distribution most need no order.
func (s *Sampler) rankNucleus(share float32) {
	s.scaled = append(s.scaled[:0], s.probs...)
	cpu.Softmax(s.probs)
	best, least := slices.Max(s.scaled), nucleusFloor(s.scaled, share)
	mass, above := 0.0, noBound
	for width := float32(1); ; width *= 2 {
		floor := max(best-width, least)
		from := len(s.order)
		s.append(s.scaled, floor, above)
		for _, id := range s.order[from:] {
			mass += float64(s.probs[id])
		}
		if mass >= float64(share) || !(floor > least) { // also if one is not a number
			return
		}
		above = floor
	}
}

// noBound is below nothing.
var noBound = float32(math.NaN())

// append adds the candidates from a floor on, but for those from a bound on, in order.
func (s *Sampler) append(x []float32, floor, bound float32) {
	order, from := s.order, len(s.order)
	for i, v := range x {
		if v >= floor && !(v >= bound) {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order[from:], func(a, b int32) int {
		switch {
		case x[a] > x[b] || x[a] == x[b] && a < b:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	s.order = order
}

// maskOthers removes everything that is not ranked, so that top-p's share is
// taken of the top k alone, as transformers does.
func (s *Sampler) maskOthers() {
	kept := make([]float32, len(s.order))
	for i, id := range s.order {
		kept[i] = s.probs[id]
	}
	for i := range s.probs {
		s.probs[i] = float32(math.Inf(-1))
	}
	for i, id := range s.order {
		s.probs[id] = kept[i]
	}
}

// kthLargest uses a bounded heap: k is small beside the vocabulary.
func (s *Sampler) kthLargest(k int) float32 {
	heap := make([]float32, 0, k)
	for _, v := range s.probs {
		if len(heap) < k {
			heap = append(heap, v)
			if len(heap) == k {
				slices.Sort(heap)
			}
			continue
		}
		if v > heap[0] {
			heap[0] = v
			siftDown(heap)
		}
	}
	return heap[0]
}

func siftDown(h []float32) {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

func (s *Sampler) drawRanked(p Params, u float64) uint32 {
	kept, mass := len(s.order), 0.0
	least := p.MinP * s.probs[s.order[0]]
	for i, id := range s.order {
		if s.probs[id] < least {
			kept = i
			break
		}
		mass += float64(s.probs[id])
		if p.TopP < 1 && mass >= float64(p.TopP) {
			kept = i + 1
			break
		}
	}
	target, sum := u*mass, 0.0
	for _, id := range s.order[:kept] {
		sum += float64(s.probs[id])
		if sum > target {
			return uint32(id)
		}
	}
	return uint32(s.order[kept-1])
}

// dropBelow leaves out what is less likely than that.
func dropBelow(probs []float32, least float32) {
	for i, v := range probs {
		if v < least {
			probs[i] = 0
		}
	}
}

func drawAll(probs []float32, u float64) uint32 {
	total := 0.0
	for _, v := range probs {
		total += float64(v)
	}
	target, sum, last := u*total, 0.0, 0
	for i, v := range probs {
		if v == 0 {
			continue
		}
		last = i
		if sum += float64(v); sum > target {
			break
		}
	}
	return uint32(last)
}

func (s *Sampler) logprobs(logits []float32, chosen uint32, n int) (float32, []Candidate) {
	return logits[chosen] - LogSumExp(logits), Best(logits, n)
}

// Best returns the n likeliest tokens, best first, by the logits (vocab) as they are.
func Best(logits []float32, n int) []Candidate {
	lse := LogSumExp(logits)
	top := make([]Candidate, 0, n)
	for id, v := range logits {
		if v > barred {
			top = insert(top, Candidate{uint32(id), v - lse}, n)
		}
	}
	return top
}

// insert keeps the n best candidates, best first, ties to the lower id.
func insert(top []Candidate, c Candidate, n int) []Candidate {
	at := len(top)
	for at > 0 && top[at-1].Logprob < c.Logprob {
		at--
	}
	if at >= n {
		return top
	}
	if len(top) == n {
		top = top[:n-1]
	}
	return slices.Insert(top, at, c)
}

// LogSumExp is log Σ exp(x), in float64 inside.
func LogSumExp(x []float32) float32 {
	m := slices.Max(x)
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - m))
	}
	return m + float32(math.Log(sum))
}

// Uniform returns a number in [0, 1) keyed by (seed, index): two rounds of the
// SplitMix64 finaliser over both (Steele et al. 2014, figure 15).
func Uniform(seed uint32, index int) float64 {
	x := splitmix.Mix(uint64(seed)+splitmix.Gamma) ^ uint64(index)
	return splitmix.Unit(splitmix.Mix(x + splitmix.Gamma))
}
