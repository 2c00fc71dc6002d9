package bench

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/sampling"
)

// Lengths of prompts and contexts in benchmarks.
const (
	promptLength  = 16
	prefillLength = 512
	// Context is how many tokens a sequence may have.
	Context = 512
)

// KVBytes is the memory for keys and values on either side.
const KVBytes = 2 << 30

// Seed is that of the prompts and of synthetic weights.
const Seed = 1

// directSide is the direct path under measurement.
type directSide struct {
	runner *direct.Runner
	spec   model.Spec
	clock  forward.Clock
}

func newDirectSide(b Settings) (*directSide, error) {
	s := &directSide{spec: b.Model.Spec}
	r, err := direct.New(b.Model, b.Pool, direct.Settings{
		Wire: tensor.Wire(b.Wire), MaxPositions: cmp.Or(b.Context, Context), KVBytes: KVBytes, Clock: &s.clock,
	})
	if err != nil {
		return nil, err
	}
	s.runner = r
	return s, nil
}

func (s *directSide) maxTokens() int { return min(Context, s.spec.MaxPositions) - promptLength }

var greedy = sampling.Params{TopP: 1, Logprobs: -1}

// promptIDs are the prompt of sequence i.
func promptIDs(i, n, vocab int) []uint32 {
	r := rand.New(rand.NewPCG(Seed, uint64(i)))
	ids := make([]uint32, n)
	for k := range ids {
		ids[k] = uint32(r.IntN(vocab))
	}
	return ids
}

// speed is what a turn of decoding measured.
type speed struct {
	rate           float64 // tokens a second
	bytesPerSecond float64 // of weights
}

// decode generates tokens for a batch of sequences; prefill does not count.
func (s *directSide) decode(ctx context.Context, batch, tokens int) (speed, error) {
	seqs, err := s.add(batch, promptLength, tokens)
	if err != nil {
		return speed{}, err
	}
	defer closeAll(seqs)
	if err := s.runner.Step(ctx, seqs); err != nil {
		return speed{}, err
	}
	before, began := s.runner.WeightBytes(), time.Now()
	for range tokens - 1 {
		if err := s.runner.Step(ctx, seqs); err != nil {
			return speed{}, err
		}
	}
	took := since(began)
	return speed{float64(batch*(tokens-1)) / took, float64(s.runner.WeightBytes()-before) / took}, nil
}

func (s *directSide) add(batch, prompt, tokens int) ([]*direct.Sequence, error) {
	seqs := make([]*direct.Sequence, batch)
	for i := range seqs {
		var err error
		if seqs[i], err = s.runner.Add(promptIDs(i, prompt, s.spec.Vocab), tokens, greedy); err != nil {
			closeAll(seqs[:i])
			return nil, err
		}
	}
	return seqs, nil
}

func closeAll(seqs []*direct.Sequence) {
	for _, s := range seqs {
		s.Close()
	}
}

// prefill is the median rate of a few prompts of 512 tokens, one at a time.
func (s *directSide) prefill(ctx context.Context) (float64, error) {
	var rates []float64
	for range 5 {
		n := min(prefillLength, s.spec.MaxPositions)
		seqs, err := s.add(1, n, 0)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		err = s.runner.Step(ctx, seqs)
		rates = append(rates, float64(n)/since(began))
		closeAll(seqs)
		if err != nil {
			return 0, err
		}
	}
	return median(rates), nil
}
