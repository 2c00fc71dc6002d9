package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/sampling"
)

// Lengths of prompts and contexts in benchmarks.
const (
	benchPrompt  = 16
	benchPrefill = 512
	benchContext = 512
)

// benchKV is the memory for keys and values on either side.
const benchKV = 2 << 30

// directSide is the direct path under measurement.
type directSide struct {
	runner *direct.Runner
	spec   model.Spec
}

func newDirectSide(m *model.Model, p *pool.Pool, wire string) (*directSide, error) {
	r, err := direct.New(m, p, direct.Settings{Wire: tensor.Wire(wire), MaxPositions: benchContext, KVBytes: benchKV})
	if err != nil {
		return nil, err
	}
	return &directSide{runner: r, spec: m.Spec}, nil
}

func (s *directSide) maxTokens() int { return min(benchContext, s.spec.MaxPositions) - benchPrompt }

var benchGreedy = sampling.Params{TopP: 1, Logprobs: -1}

// benchIDs are the prompt of sequence i.
func benchIDs(i, n, vocab int) []uint32 {
	r := rand.New(rand.NewPCG(benchSeed, uint64(i)))
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
	seqs, err := s.add(batch, benchPrompt, tokens)
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
		if seqs[i], err = s.runner.Add(benchIDs(i, prompt, s.spec.Vocab), tokens, benchGreedy); err != nil {
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
		n := min(benchPrefill, s.spec.MaxPositions)
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
