package bits

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// Models with an encoder give the bits of direct calls, too: what the encoder
// makes, logits, and the tokens of several prompts at once.
func TestEncodersAreDirect(t *testing.T) {
	for _, name := range []string{"bert_moe", "bert2bert_moe"} {
		for _, wire := range testkit.Some([]tensor.Wire{tensor.F32, tensor.BF16}) {
			dir := clustertest.Masked(t, goldens.Dir(name))
			want := encoderAnswers(t, dir, wire)
			t.Run(name+"/"+string(wire), func(t *testing.T) {
				t.Parallel()
				compareEncoder(t, dir, wire, want)
			})
		}
	}
}

// maskedIDs are a prompt for an encoder, with masks.
func maskedIDs(i, vocab int) []uint32 {
	ids := compared.PromptIDs(i, compared.PromptTokens+20*i, vocab)
	ids[2], ids[5] = clustertest.Mask, clustertest.Mask
	return ids
}

// encoderAnswers is what direct calls give: per prompt what the encoder makes, if a
// decoder follows, logits and tokens.
func encoderAnswers(t *testing.T, dir string, wire tensor.Wire) (all []encoded) {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	r, err := direct.New(m, p, direct.Settings{Wire: wire, MaxPositions: 2 * compared.Positions, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range compared.AtOnce {
		all = append(all, encodedBy(t, r, m, i))
	}
	return all
}

type encoded struct {
	hidden, logits []float32
	tokens         []uint32
}

func sampledAs(i int) sampling.Params {
	return sampling.Params{Temperature: 0.9, TopP: 0.95, RepetitionPenalty: 1.3, Seed: uint32(i), Logprobs: -1}
}

func encodedBy(t *testing.T, r *direct.Runner, m *model.Model, i int) (e encoded) {
	t.Helper()
	prompt := direct.Prompt{IDs: maskedIDs(i, m.Spec.Vocab)}
	prompt.Source = len(prompt.IDs)
	answers := m.Spec.Task() == model.Answer
	if answers {
		prompt.IDs = append(prompt.IDs, uint32(m.Spec.DecoderStart))
	}
	s, err := r.AddPrompt(prompt, compared.AnswerTokens, sampledAs(i))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if answers {
		if e.hidden, err = r.Encode(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if e.logits, err = r.Logits(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	e.tokens = chosen(t, r, m, prompt, e.logits, i)
	return e
}

// chosen is what fills a prompt's masks, or what a decoder answers.
func chosen(t *testing.T, r *direct.Runner, m *model.Model, prompt direct.Prompt, logits []float32, i int) (tokens []uint32) {
	t.Helper()
	if m.Spec.Task() == model.Fill {
		var sampler sampling.Sampler
		for at, id := range prompt.IDs {
			if id == clustertest.Mask {
				row := slices.Clone(logits[at*m.Spec.Vocab:][:m.Spec.Vocab])
				tokens = append(tokens, sampler.Next(row, sampledAs(i), prompt.IDs, len(tokens)).ID)
			}
		}
		return tokens
	}
	s, err := r.AddPrompt(prompt, compared.AnswerTokens, sampledAs(i))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range compared.AnswerTokens {
		if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
			t.Fatal(err)
		}
	}
	return s.Generated()
}

func compareEncoder(t *testing.T, dir string, wire tensor.Wire, want []encoded) {
	y := clustertest.Start(t, clustertest.Open(t, dir), clustertest.Joined(wire, schemas.HopsUnacked), clustertest.Hosts(2), func(s *cluster.Settings) {
		clustertest.Context(2 * compared.Positions)(s)
		s.Services.Attention.MaxRows = 16
	})
	y.AwaitHosts(t, 2)
	compareEncoded(t, y, want)
}

func compareEncoded(t *testing.T, y clustertest.Cluster, want []encoded) {
	t.Helper()
	q := compared.Asker(y)
	got, errs := make([]encoded, len(want)), make([]error, len(want))
	var all sync.WaitGroup
	for i := range want {
		all.Go(func() { got[i], errs[i] = encodedOver(t.Context(), q, y.Settings.Node.Shared.Model, i) })
	}
	all.Wait()
	for i, w := range want {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if at, _, _ := compared.FirstDifference(got[i].hidden, w.hidden); at >= 0 {
			t.Errorf("prompt %d: the encoder's output differs from number %d on", i, at)
		}
		if at, _, _ := compared.FirstDifference(got[i].logits, w.logits); at >= 0 {
			t.Errorf("prompt %d: logits differ from number %d on", i, at)
		}
		if !slices.Equal(got[i].tokens, w.tokens) {
			t.Errorf("prompt %d: tokens %v, want %v", i, got[i].tokens, w.tokens)
		}
	}
}

// encodedOver is what messages give.
func encodedOver(ctx context.Context, q *asker.Asker, m *model.Model, i int) (e encoded, err error) {
	ids := maskedIDs(i, q.Vocab)
	positions := len(ids)
	if m.Spec.Task() == model.Answer {
		positions++
	}
	if e.hidden, e.logits, err = q.Scores(ctx, &pb.Prompt{InputIds: ids}, positions); err != nil {
		return e, err
	}
	n, temperature, topP, penalty, seed := int32(compared.AnswerTokens), 0.9, 0.95, 1.3, uint32(i)
	chunks, err := q.Ask(ctx, &pb.Prompt{
		InputIds: ids, MaxTokens: &n, Temperature: &temperature, TopP: &topP, RepetitionPenalty: &penalty, Seed: &seed,
	})
	for _, c := range chunks {
		e.tokens = append(e.tokens, c.TokenIds...)
	}
	return e, err
}
