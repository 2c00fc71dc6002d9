package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/request/sampling"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/verify"
)

// The models of TestPipelineIsDirect: the demo; experts in every layer; dense
// layers between, and a shared expert; GPT-2's norms, positions and biases; sinks,
// windows and packed experts; a cache of latents.
var pipelineModels = []string{
	"../../models/demo", goldens.Dir("mixtral"), goldens.Dir("qwen2_moe-mixed"),
	goldens.Dir("gpt2_moe"), goldens.Dir("gpt_oss-mxfp4"),
	goldens.Dir("deepseek_v3"),
}

// setup is how a pipeline's parts are joined.
type setup struct {
	wire  tensor.Wire
	hops  schemas.Hops
	hosts int
}

// setups are all of them for one model, and each choice once for the others; one
// each under the race detector, which takes minutes for all.
func setups(whole bool) (all []setup) {
	if !whole || testkit.Race {
		all = []setup{{tensor.BF16, schemas.HopsUnacked, 2}, {tensor.F32, schemas.HopsCore, 1}, {tensor.BF16, schemas.HopsAcked, 1}}
		if testkit.Race {
			all = all[:1]
		}
		return all
	}
	for _, wire := range []tensor.Wire{tensor.F32, tensor.BF16} {
		for _, hops := range []schemas.Hops{schemas.HopsAcked, schemas.HopsUnacked, schemas.HopsCore} {
			all = append(all, setup{wire, hops, 1}, setup{wire, hops, 2})
		}
	}
	return all
}

// TestPipelineIsDirect starts the five services and a NATS server, and wants
// from messages the bits that direct calls give.
func TestPipelineIsDirect(t *testing.T) {
	for i, dir := range pipelineModels {
		for _, s := range setups(i == 1) {
			t.Run(fmt.Sprintf("%s/%s/%s/hosts=%d", filepath.Base(dir), s.wire, s.hops, s.hosts), func(t *testing.T) {
				comparePipeline(t, dir, s.wire, s.hops, s.hosts, directAnswers(t, dir, s.wire))
			})
		}
	}
}

// Sizes of the comparison.
const (
	comparedPrompt  = 11
	comparedTokens  = 6
	comparedAtOnce  = 4
	comparedContext = 64
)

// answers are what both sides compute: the logits of prompt 0's positions, and
// the sampled tokens of all prompts.
type answers struct {
	logits []float32
	tokens [][]uint32
}

func directAnswers(t *testing.T, dir string, wire tensor.Wire) answers {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	r, err := direct.New(m, p, direct.Settings{Wire: wire, MaxPositions: comparedContext, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return answers{directLogits(t, r, m.Spec.Vocab), directTokens(t, r, m.Spec.Vocab)}
}

func directLogits(t *testing.T, r *direct.Runner, vocab int) []float32 {
	t.Helper()
	s, err := r.Add(promptIDs(0, comparedPrompt, vocab), 0, greedy)
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
func directTokens(t *testing.T, r *direct.Runner, vocab int) (tokens [][]uint32) {
	t.Helper()
	for i := range comparedAtOnce {
		s, err := r.Add(promptIDs(i, comparedPrompt, vocab), comparedTokens, sampling.Params{Temperature: 0.9, TopP: 0.95, Seed: uint32(i), Logprobs: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range comparedTokens {
			if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
				t.Fatal(err)
			}
		}
		tokens = append(tokens, slices.Clone(s.Generated()))
		s.Close()
	}
	return tokens
}

func comparePipeline(t *testing.T, dir string, wire tensor.Wire, hops schemas.Hops, hosts int, want answers) {
	t.Parallel() // most of a pipeline's start and end is waiting
	compareAnswers(t, startPipeline(t, dir, wire, hops, hosts), hosts, want)
}

// compareAnswers wants from a pipeline with so many hosts what direct calls gave.
func compareAnswers(t *testing.T, y *cluster.Cluster, hosts int, want answers) {
	t.Helper()
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n := y.Settings.Node
	awaitHosts(t, conn, n.Names(), n.Shared.Model, hosts)
	q := &verify.Asker{Client: client.New(conn.NATS(), client.Settings{Prefix: n.Shared.Prefix, Model: n.ModelName()}), Vocab: n.Shared.Model.Spec.Vocab}
	logits, err := q.Logits(t.Context(), promptIDs(0, comparedPrompt, q.Vocab))
	if err != nil {
		t.Fatal(err)
	}
	if at, a, b := firstDifference(logits, want.logits); at >= 0 {
		t.Errorf("logit %d is %v, %v by direct calls", at, a, b)
	}
	if got := pipelineTokens(t, q); !slices.EqualFunc(got, want.tokens, slices.Equal) {
		t.Errorf("tokens\n got %v\nwant %v", got, want.tokens)
	}
}

// startPipeline is a pipeline with so many expert hosts, in this process.
func startPipeline(t *testing.T, dir string, wire tensor.Wire, hops schemas.Hops, hosts int, change ...func(*UpCmd)) *cluster.Cluster {
	t.Helper()
	up, err := ownUp()
	if err != nil {
		t.Fatal(err)
	}
	up.Listen, up.Scaling, up.ModelFlags.Model, up.Wire, up.Hops = "", noScaling, dir, string(wire), string(hops)
	up.Hosts, up.Threads, up.MaxModelLen, up.KVMemory = hosts, 1, comparedContext, "64MiB"
	for _, c := range change {
		c(&up)
	}
	e := &env{Globals: Globals{Prefix: schemas.DefaultPrefix}, stdio: stdio{out: io.Discard, err: io.Discard}, log: slog.New(slog.DiscardHandler)}
	settings, err := up.settings(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	y, err := openCluster(context.Background(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return y
}

// awaitHosts waits until the gates use a plan that has all hosts.
func awaitHosts(t *testing.T, conn *bus.Conn, names schemas.Streams, m *model.Model, hosts int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	plans, err := conn.EnsureBucket(ctx, 1, names.Bucket("plans"), 0)
	if err != nil {
		t.Fatal(err)
	}
	present, err := conn.EnsureBucket(ctx, 1, names.Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	view, err := members.Watch(ctx, present)
	if err != nil {
		t.Fatal(err)
	}
	for {
		state, err := planstore.New(plans, planstore.Settings{Rules: legalPlans(m, view.Snapshot())}).Read(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the gates use no plan with %d hosts: %v", hosts, err)
		}
		if layers := state.Layers(); err == nil && len(plan.Hosts(layers)) == hosts && gatesFollow(ctx, conn, names, view.Snapshot(), layers) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// legalPlans says what a legal plan of a model is to a member that is here.
func legalPlans(m *model.Model, all []*pb.Member) plan.Rules {
	s := plan.Rules{Experts: m.Spec.Experts}
	if len(all) > 0 {
		s.Kind = schemas.KindOf(all[0])
	}
	for l, spec := range m.Spec.Layer {
		if spec.MoE {
			s.MoELayers = append(s.MoELayers, l)
		}
	}
	return s
}

// gatesFollow says whether all gates use the newest plan of each layer.
func gatesFollow(ctx context.Context, conn *bus.Conn, names schemas.Streams, all []*pb.Member, layers map[int]*plan.Layer) bool {
	said, err := conn.EnsureBucket(ctx, 1, names.Bucket("functions"), 0)
	if err != nil {
		return false
	}
	gates := members.OfService(all, "gate")
	for _, m := range gates {
		entry, err := said.Get(ctx, functions.GateKey(m.Id))
		r := &pb.GateLayers{}
		if err != nil || proto.Unmarshal(entry.Value(), r) != nil {
			return false
		}
		for l, p := range layers {
			if r.Versions[uint32(l)] != p.Version {
				return false
			}
		}
	}
	return len(gates) > 0
}

// pipelineTokens asks for all prompts at once.
func pipelineTokens(t *testing.T, q *verify.Asker) [][]uint32 {
	t.Helper()
	tokens, errs := make([][]uint32, comparedAtOnce), make([]error, comparedAtOnce)
	var all sync.WaitGroup
	for i := range comparedAtOnce {
		all.Go(func() { tokens[i], errs[i] = sampled(t.Context(), q, i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return tokens
}

// sampled generates with the settings of directTokens.
func sampled(ctx context.Context, q *verify.Asker, i int) (tokens []uint32, err error) {
	n, temperature, topP, seed := int32(comparedTokens), 0.9, 0.95, uint32(i)
	chunks, err := q.Ask(ctx, &pb.Prompt{
		InputIds: promptIDs(i, comparedPrompt, q.Vocab), MaxTokens: &n, Temperature: &temperature, TopP: &topP, Seed: &seed,
	})
	for _, c := range chunks {
		tokens = append(tokens, c.TokenIds...)
	}
	return tokens, err
}

var greedy = sampling.Params{TopP: 1, Logprobs: -1}

// promptIDs are a prompt of n tokens, another for each i.
func promptIDs(i, n, vocab int) []uint32 {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	ids := make([]uint32, n)
	for k := range ids {
		ids[k] = uint32(r.IntN(vocab))
	}
	return ids
}

// firstDifference is where two vectors have different bits, -1 for nowhere.
func firstDifference(a, b []float32) (at int, left, right float32) {
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
