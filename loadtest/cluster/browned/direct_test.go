package browned

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// candidates are those whose log-probabilities are compared, as bits.
const candidates = 20

// A request alone has the tokens and the log-probabilities of direct calls with the same split,
// whatever the way, the strategy, the thresholds, and how tensors travel.
func TestBrownedIsDirect(t *testing.T) {
	dir := goldens.Dir("qwen2_moe")
	for i, tc := range testkit.Some([]setting{
		{way: 2, strategy: brownout.Partial, prefill: 300_000, decode: 0, exempt: []int{1}},
		{way: 8, strategy: brownout.Partial, prefill: 0, decode: 500_000},
		{way: 8, strategy: brownout.Partial, prefill: brownout.One, decode: 0, exempt: []int{0, 2}},
		{way: 2, strategy: brownout.Full, prefill: 600_000, decode: 500_000, exempt: []int{0}},
	}) {
		hops := []schemas.Hops{schemas.HopsUnacked, schemas.HopsCore, schemas.HopsAcked, schemas.HopsUnacked}[i%4]
		t.Run(fmt.Sprintf("way %d, %v, %d, %d, %s", tc.way, tc.strategy, tc.prefill, tc.decode, hops), func(t *testing.T) {
			t.Parallel()
			m := clustertest.Open(t, dir)
			folder := clustertest.Students(t, m, true, 2, 8)
			want, cold := tc.directly(t, dir, folder)
			y := start(t, m, folder, tc, clustertest.Hosts(2), clustertest.Joined(tensor.BF16, hops))
			testkit.Eventually(t, "the answer of united experts that are warm", func() bool {
				return slices.EqualFunc(answerOf(t, y, 0), want[0], same)
			})
			for i := range compared.AtOnce {
				if got := warmAnswer(t, y, i, cold[i]); !slices.EqualFunc(got, want[i], same) {
					t.Errorf("prompt %d:\n got %v\nwant %v", i, got, want[i])
				}
			}
		})
	}
}

// setting is a brownout's.
type setting struct {
	way             int
	strategy        brownout.Strategy
	prefill, decode uint32
	exempt          []int
}

// answered is a token with the probabilities beside it.
type answered struct {
	id      uint32
	logprob float32
	top     []sampling.Candidate
}

func same(a, b answered) bool {
	return a.id == b.id && math.Float32bits(a.logprob) == math.Float32bits(b.logprob) && slices.EqualFunc(a.top, b.top, func(a, b sampling.Candidate) bool {
		return a.ID == b.ID && math.Float32bits(a.Logprob) == math.Float32bits(b.Logprob)
	})
}

// warmAnswer is the answer to prompt i of a time when all united experts were warm that there are, so
// that so many slots found none: a plan without a host that is late makes more of them cold.
func warmAnswer(t *testing.T, y clustertest.Cluster, i, cold int) (all []answered) {
	t.Helper()
	testkit.Eventually(t, "an answer of warm united experts", func() bool {
		before := slots(t, y, "cold")
		all = answerOf(t, y, i)
		return slots(t, y, "cold")-before == float64(cold)
	})
	return all
}

// answerOf asks for prompt i alone.
func answerOf(t *testing.T, y clustertest.Cluster, i int) (all []answered) {
	t.Helper()
	n, best, temperature, topP, seed := int32(compared.AnswerTokens), int32(candidates), 0.9, 0.95, uint32(i)
	for c, err := range y.Ask(t, &pb.Prompt{
		InputIds: compared.PromptIDs(i, compared.PromptTokens, y.Settings.Node.Shared.Model.Spec.Vocab), MaxTokens: &n, Logprobs: &best,
		Temperature: &temperature, TopP: &topP, Seed: &seed, IgnoreEos: true,
	}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range c.Logprobs {
			one := answered{l.Chosen.Id, l.Chosen.Logprob, nil}
			for _, c := range l.Top {
				one.top = append(one.top, sampling.Candidate{ID: c.Id, Logprob: c.Logprob})
			}
			all = append(all, one)
		}
	}
	return all
}

// directly is what direct calls answer, and how many slots of each answer are of groups without a
// united expert.
func (s setting) directly(t *testing.T, dir, folder string) (all [][]answered, cold []int) {
	t.Helper()
	m, p := clustertest.Open(t, dir), pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	b, err := united.Open(folder, s.way, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	cpu := device.NewCPU(m, p, device.Settings{})
	defer cpu.Close()
	if err := device.LoadAll(t.Context(), cpu, m.Spec); err != nil {
		t.Fatal(err)
	}
	experts := united.NewExperts(cpu, p, m.Spec.Experts)
	if err := experts.Use(b); err != nil {
		t.Fatal(err)
	}
	split := &splitter{setting: s, bundle: b, spec: &m.Spec}
	r, err := direct.New(m, p, direct.Settings{
		Wire: tensor.BF16, MaxPositions: compared.Positions, KVBytes: 64 << 20, On: direct.Parts{Experts: experts}, Redirect: split.redirect,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range compared.AtOnce {
		split.cold = 0
		all = append(all, split.answer(t, r, compared.PromptIDs(i, compared.PromptTokens, m.Spec.Vocab), uint32(i)))
		cold = append(cold, split.cold)
	}
	if split.degraded == 0 {
		t.Error("nothing was degraded")
	}
	return all, cold
}

// splitter splits the rows of each step and layer anew.
type splitter struct {
	setting
	bundle   *united.Bundle
	spec     *model.Spec
	by       brownout.Splitter
	decoding bool
	degraded int
	cold     int // slots of groups without a united expert, which would have had one
}

func (s *splitter) redirect(layer int, _ []float32, r *forward.Routes) error {
	if slices.Contains(s.exempt, layer) {
		return nil
	}
	set := brownout.Settings{Strategy: s.strategy, Way: s.way, Threshold: int(s.prefill)}
	if s.decoding {
		set.Threshold = int(s.decode)
	}
	if s.strategy == brownout.Partial {
		set.Without, set.Grouping = s.bundle.Without(layer), s.bundle.Grouping(layer)
	}
	rows := brownout.Rows{Count: make([]int32, s.spec.Experts)}
	if s.strategy == brownout.Partial {
		rows.Loss = make([]float64, s.spec.Experts)
	}
	for i, e := range r.Expert {
		if rows.Count[e]++; rows.Loss != nil {
			rows.Loss[e] += float64(r.Weight[i]) * float64(r.Weight[i]) * s.bundle.Distances(layer)[e]
		}
	}
	d, err := s.by.Split(set, rows)
	if err != nil {
		return err
	}
	for _, e := range r.Expert {
		if set.Without != nil && d.Fate[e] == brownout.Lone && set.Without[d.Group(int(e))] {
			s.cold++
		}
	}
	for i := 0; i < len(r.Expert); i += r.K {
		s.degraded += d.Redirect(r.Expert[i:i+r.K], r.Weight[i:i+r.K])
	}
	return nil
}

func (s *splitter) answer(t *testing.T, r *direct.Runner, prompt []uint32, seed uint32) (all []answered) {
	t.Helper()
	params := sampling.Params{Temperature: 0.9, TopP: 0.95, Seed: seed, Logprobs: candidates}
	seq, err := r.Add(prompt, compared.AnswerTokens, params)
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	var sampler sampling.Sampler
	for i := range compared.AnswerTokens {
		s.decoding = i > 0
		var last []float32
		if err := r.Rows(t.Context(), []*direct.Sequence{seq}, func(_ int, logits []float32) { last = append(last[:0], logits...) }); err != nil {
			t.Fatal(err)
		}
		c := sampler.Next(last, params, seq.IDs, i)
		seq.IDs = append(seq.IDs, c.ID)
		all = append(all, answered{c.ID, c.Logprob, slices.Clone(c.Top)})
	}
	return all
}
