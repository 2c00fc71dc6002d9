package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
)

// Lengths of prompts and contexts in benchmarks.
const (
	// PromptLength is that of prompts for which nobody wants another one.
	PromptLength = 16
	// prefillLength is that of the prompts of a prefill, where the model has as many positions.
	prefillLength = 512
	// Context is how many tokens a sequence may have, prompt and answer, with such a prompt.
	Context = 512
)

// ContextFor is how many tokens a sequence may have behind a prompt of so many.
func ContextFor(prompt int) int { return max(Context, prompt+Context-PromptLength) }

// KVBytes is the memory for keys and values on either side.
const KVBytes = 2 << 30

// Seed is that of the prompts and of synthetic weights.
const Seed = model.SyntheticSeed

// directSide is the direct path under measurement.
type directSide struct {
	runner *direct.Runner
	spec   model.Spec
	clock  forward.Clock
	prompt int  // tokens of one
	rows   int  // of a step at most, as of the pipeline's
	onGPU  bool // keys and values are
}

// Models that bench cannot measure.
const (
	encoder        = "an encoder, which fills masks"
	encoderDecoder = "an encoder before a decoder"
	instead        = "serve it (switchyard up --model DIR), and take the time of its answers (switchyard prompt --stats)"
)

// CheckTask refuses models that do not go on with a prompt.
func CheckTask(m *model.Model) error {
	const refusal = "bench measures models that go on with a prompt; model %s is %s: %s"
	switch m.Spec.Task() {
	case model.Fill:
		return fmt.Errorf(refusal, m.Name, encoder, instead)
	case model.Answer:
		return fmt.Errorf(refusal, m.Name, encoderDecoder, instead+", or that of changes of its plan (bench --rescale)")
	}
	return nil
}

// CheckRescale refuses models without a time between tokens.
func CheckRescale(m *model.Model) error {
	if m.Spec.Task() == model.Fill {
		return fmt.Errorf("--rescale measures the time between tokens; model %s is %s: %s", m.Name, encoder, instead)
	}
	return nil
}

// CheckPrompt refuses prompts that leave no room for answers.
func CheckPrompt(m *model.Model, tokens int) error {
	if most := m.Spec.MaxPositions - minTokens; tokens > most {
		return fmt.Errorf("--prompt-tokens is %d; model %s has %d positions, of which %d are for answers: it must be 1 to %d", tokens, m.Name, m.Spec.MaxPositions, minTokens, most)
	}
	return nil
}

func newDirectSide(b Settings) (*directSide, error) {
	s := &directSide{spec: b.Model.Spec, prompt: b.prompt(), rows: directRows}
	settings := direct.Settings{
		Wire: tensor.Wire(b.Wire), MaxPositions: cmp.Or(b.Context, ContextFor(s.prompt)), KVBytes: KVBytes, Rows: directRows, Clock: &s.clock,
		AllRows: b.Heard != nil, // layers are measured with so many rows
	}
	if d := b.Devices; d != nil {
		settings.On, settings.KVBytes, settings.Rows, s.rows, s.onGPU = d.on, d.kv, d.room, d.rows, d.on.Backbone != nil
	}
	r, err := direct.New(b.Model, b.Pool, settings)
	if err != nil {
		return nil, unloadedDirect(err)
	}
	s.runner = r
	return s, nil
}

// unloadedDirect is unloaded for the direct path.
func unloadedDirect(err error) error {
	const doing = "the direct path cannot be loaded"
	if ofWeights(err) {
		return &deployment.WeightsError{Doing: doing, Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// maxTokens is the most that each of a batch of sequences can generate, by the context and
// by what there is for keys and values.
func (s *directSide) maxTokens(batch int) (int, error) {
	most := min(ContextFor(s.prompt), s.spec.MaxPositions) - s.prompt
	for n := most; n >= minTokens; n-- {
		if s.runner.Room(s.prompt+n) >= batch {
			return n, nil
		}
	}
	return 0, &RoomError{Batch: batch, Room: s.runner.Room(s.prompt + minTokens), Tokens: s.prompt + minTokens, onGPU: s.onGPU}
}

// checkRoom refuses batches that have no room, before anything is measured.
func (s *directSide) checkRoom(batches []int) error {
	for _, batch := range batches {
		if _, err := s.maxTokens(batch); err != nil {
			return err
		}
	}
	return nil
}

// RoomError says that there is too little memory for a batch's keys and values.
type RoomError struct {
	// Room is how many sequences there is memory for, of so many Tokens each.
	Batch, Room, Tokens int

	onGPU bool
}

// Error has both numbers, and what to do.
func (e *RoomError) Error() string {
	text := fmt.Sprintf("--batch has %d; there is memory for the keys and values of %d sequences of %d tokens: take a smaller --batch or --prompt-tokens", e.Batch, e.Room, e.Tokens)
	if e.onGPU {
		text += ", or a larger --attention-gpu-memory"
	}
	return text
}

// CheckRoom refuses batches whose keys and values the processor's memory for them does not
// hold, in steps of so many rows.
func CheckRoom(m *model.Model, prompt, rows int, batches []int) error {
	shape := kvcache.ShapeOf(&m.Spec)
	shape.Rows = roomOnCPU(rows)
	kv, err := kvcache.NewPool(shape, KVBytes)
	if err != nil {
		return err
	}
	tokens := prompt + minTokens
	if room := kv.Capacity() / kv.Need(tokens); slices.Max(batches) > room {
		return &RoomError{Batch: slices.Max(batches), Room: room, Tokens: tokens}
	}
	return nil
}

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
	rate           float64   // tokens a second
	bytesPerSecond float64   // of weights
	firsts         []float64 // seconds to the first token of each sequence
}

// decode generates tokens for a batch of sequences; of the rate their first ones are no part.
func (s *directSide) decode(ctx context.Context, batch, tokens int) (speed, error) {
	asked := time.Now()
	seqs, err := s.add(batch, s.prompt, tokens)
	if err != nil {
		return speed{}, err
	}
	defer closeAll(seqs)
	firsts, err := s.first(ctx, seqs, asked)
	if err != nil {
		return speed{}, err
	}
	before, began := s.runner.WeightBytes(), time.Now()
	for range tokens - 1 {
		if err := s.runner.Step(ctx, seqs); err != nil {
			return speed{}, err
		}
	}
	took := since(began)
	return speed{float64(batch*(tokens-1)) / took, float64(s.runner.WeightBytes()-before) / took, firsts}, nil
}

// first takes the prompts through the layers, as many together as a step has rows for. It
// returns how long after they were asked each sequence had its first token.
func (s *directSide) first(ctx context.Context, seqs []*direct.Sequence, asked time.Time) (seconds []float64, err error) {
	for some := range slices.Chunk(seqs, max(1, s.rows/s.prompt)) {
		if err := s.runner.Step(ctx, some); err != nil {
			return nil, err
		}
		now := since(asked)
		for range some {
			seconds = append(seconds, now)
		}
	}
	return seconds, nil
}

func (s *directSide) bound() { s.runner.Bound(s.rows) }

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

func (s *directSide) prefillTokens() int { return min(prefillLength, s.spec.MaxPositions) }

// prompts measures prompts whose last position has logits, and those of which all have.
func (s *directSide) prompts(ctx context.Context, seconds float64) (prefill, scored float64, err error) {
	if prefill, err = s.prefill(ctx, seconds, s.runner.Step); err != nil {
		return 0, 0, err
	}
	scored, err = s.prefill(ctx, seconds, func(ctx context.Context, seqs []*direct.Sequence) error {
		return s.runner.Rows(ctx, seqs, func(int, []float32) {})
	})
	return prefill, scored, err
}

// mostPrompts are enough for a median.
const mostPrompts = 5

// prefill is the median rate of a few prompts of prefillTokens, which step computes one at a time: for about so many
// seconds, but two at least and mostPrompts at most. It comes before bound.
func (s *directSide) prefill(ctx context.Context, seconds float64, step func(context.Context, []*direct.Sequence) error) (float64, error) {
	var rates []float64
	for start := time.Now(); len(rates) < 2 || len(rates) < mostPrompts && since(start) < seconds; {
		n := s.prefillTokens()
		seqs, err := s.add(1, n, 0)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		err = step(ctx, seqs)
		rates = append(rates, float64(n)/since(began))
		closeAll(seqs)
		if err != nil {
			return 0, err
		}
	}
	return median(rates), nil
}
