// Package compared is what pipelines of tests are compared with: the answers of direct calls.
package compared

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// Sizes of what is compared with direct calls.
const (
	PromptTokens = 11 // of a prompt
	AnswerTokens = 6  // of an answer
	AtOnce       = 4  // prompts
	Positions    = 64 // of a sequence at most
)

// Answers are the logits of prompt 0's positions, and the sampled tokens of all prompts.
type Answers struct {
	Logits []float32
	Tokens [][]uint32
}

// Direct returns what direct calls give of the checkpoint in a folder.
func Direct(t testing.TB, dir string, wire tensor.Wire) Answers {
	t.Helper()
	m, p := clustertest.Open(t, dir), pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	r, err := direct.New(m, p, direct.Settings{Wire: wire, MaxPositions: Positions, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return Answers{directLogits(t, r, m.Spec.Vocab), directTokens(t, r, m.Spec.Vocab)}
}

func directLogits(t testing.TB, r *direct.Runner, vocab int) []float32 {
	t.Helper()
	s, err := r.Add(PromptIDs(0, PromptTokens, vocab), 0, Greedy)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logits, err := r.Logits(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(logits)
}

// directTokens runs one sequence after the other: the pipeline batches them,
// which must not show.
func directTokens(t testing.TB, r *direct.Runner, vocab int) (tokens [][]uint32) {
	t.Helper()
	for i := range AtOnce {
		s, err := r.Add(PromptIDs(i, PromptTokens, vocab), AnswerTokens, sampling.Params{Temperature: 0.9, TopP: 0.95, Seed: uint32(i), Logprobs: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range AnswerTokens {
			if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
				t.Fatal(err)
			}
		}
		tokens = append(tokens, slices.Clone(s.Generated()))
		s.Close()
	}
	return tokens
}

// Asker asks with token ids.
func Asker(y clustertest.Cluster) *asker.Asker {
	return AskerOf(y.Producer, y.Settings.Node.Shared.Model.Spec.Vocab)
}

// AskerOf asks the model of a client.
func AskerOf(c *client.Client, vocab int) *asker.Asker {
	return &asker.Asker{Client: c, Vocab: vocab}
}

// Compare wants from a pipeline with so many expert hosts what direct calls gave.
func Compare(t testing.TB, y clustertest.Cluster, hosts int, want Answers) {
	t.Helper()
	y.AwaitHosts(t, hosts)
	q := Asker(y)
	_, logits, err := q.Scores(t.Context(), &pb.Prompt{InputIds: PromptIDs(0, PromptTokens, q.Vocab)}, PromptTokens)
	if err != nil {
		t.Fatal(err)
	}
	if at, a, b := FirstDifference(logits, want.Logits); at >= 0 {
		t.Errorf("logit %d is %v, %v by direct calls", at, a, b)
	}
	Same(t, y, want.Tokens, "beside each other")
}

// Same asks for all prompts at once, and wants the tokens of direct calls.
func Same(t testing.TB, y clustertest.Cluster, want [][]uint32, when string) {
	t.Helper()
	if got := tokens(t, Asker(y)); !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%s: tokens\n got %v\nwant %v", when, got, want)
	}
}

func tokens(t testing.TB, q *asker.Asker) [][]uint32 {
	t.Helper()
	all, errs := make([][]uint32, AtOnce), make([]error, AtOnce)
	var asking sync.WaitGroup
	for i := range AtOnce {
		asking.Go(func() { all[i], errs[i] = Sampled(t.Context(), q, i) })
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Sampled asks for the tokens of prompt i, which are among those of Direct.
func Sampled(ctx context.Context, q *asker.Asker, i int) (tokens []uint32, err error) {
	n, temperature, topP, seed := int32(AnswerTokens), 0.9, 0.95, uint32(i)
	chunks, err := q.Ask(ctx, &pb.Prompt{
		InputIds: PromptIDs(i, PromptTokens, q.Vocab), MaxTokens: &n, Temperature: &temperature, TopP: &topP, Seed: &seed,
	})
	for _, c := range chunks {
		tokens = append(tokens, c.TokenIds...)
	}
	return tokens, err
}

// Greedy takes the likeliest token.
var Greedy = sampling.Params{TopP: 1, Logprobs: -1}

// PromptIDs returns a prompt of n tokens, another for each i.
func PromptIDs(i, n, vocab int) []uint32 {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	ids := make([]uint32, n)
	for k := range ids {
		ids[k] = uint32(r.IntN(vocab))
	}
	return ids
}

// FirstDifference returns where two vectors have different bits, -1 for nowhere.
func FirstDifference(a, b []float32) (at int, left, right float32) {
	if len(a) != len(b) {
		return min(len(a), len(b)), float32(len(a)), float32(len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i, a[i], b[i]
		}
	}
	return -1, 0, 0
}
