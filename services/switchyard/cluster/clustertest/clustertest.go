// Package clustertest runs whole pipelines in tests: clusters with the settings that
// "switchyard up" has by default, on one thread, quiet, without canaries and without
// a control loop, and what tests ask of them.
package clustertest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// Settings are of a cluster with one replica of each service. The cluster
// closes the model. A test of the command compares them with its flags' defaults.
func Settings(ctx context.Context, m *model.Model, wire tensor.Wire, hops schemas.Hops) (cluster.Settings, error) {
	t, err := telemetry.Setup(ctx, telemetry.Config{ServiceName: "test", Model: schemas.ModelToken(m.Name), NumericClass: cpu.Class()})
	if err != nil {
		return cluster.Settings{}, err
	}
	return cluster.Settings{
		Node: &cluster.Node{Drain: testkit.Patience, Shared: deployment.Settings{
			Model: m, Pool: pool.New(1), Prefix: schemas.DefaultPrefix, Hops: hops, Wire: wire,
			LogAge: 2 * time.Hour, LogBytes: 4 << 30, Telemetry: t, Logger: slog.New(slog.DiscardHandler),
		}},
		Services: cluster.Services{
			Attention: attention.Config{KVBytes: 64 << 20, MaxSequences: 256, MaxRows: 256, Microbatches: 2, PromptDrag: 0.25, Speculate: 8, PrefixCache: true},
			Expert:    expert.Config{KeepAlive: time.Minute, Offload: expert.NoOffload},
			Tokenizer: tokenizer.Config{MaxQueued: tokenizer.DefaultMaxQueued, InboxPrefixes: []string{schemas.DefaultInboxPrefix}},
			Predictor: predictor.Config{Distance: 1, MaxRate: 200, Maps: predictor.Maps{Prefill: predictor.Mean, Embedding: predictor.OwnEmbedding, Replace: expertmap.Redundant, Chances: predictor.OfMaps}},
		},
		Count: cluster.OneEach(),
	}, nil
}

// Beside adds a further model to a cluster, as the first one is set. The cluster closes it.
func Beside(m *model.Model) Change {
	return func(s *cluster.Settings) {
		shared := s.Node.Shared
		shared.Model, shared.Telemetry = m, shared.Telemetry.Beside(telemetry.Config{ServiceName: "test", Model: schemas.ModelToken(m.Name), NumericClass: cpu.Class()})
		s.Beside = append(s.Beside, cluster.Beside{Node: &cluster.Node{Shared: shared, KeepPool: true}, Services: s.Services, Count: cluster.OneEach()})
	}
}

// Change changes a cluster's settings before it starts.
type Change = func(*cluster.Settings)

// Joined returns how the tensors of a pipeline travel: as which type, and over what.
func Joined(wire tensor.Wire, hops schemas.Hops) Change {
	return func(s *cluster.Settings) { s.Node.Shared.Wire, s.Node.Shared.Hops = wire, hops }
}

// Hosts returns the number of expert hosts.
func Hosts(n int) Change { return func(s *cluster.Settings) { s.Count["expert"] = n } }

// Context bounds the tokens of a sequence, prompt and answer together.
func Context(tokens int) Change {
	return func(s *cluster.Settings) {
		s.Services.Attention.MaxModelLen, s.Services.Tokenizer.MaxModelLen = tokens, tokens
	}
}

// Loop adds a control loop, with a Kafka of its own, which decides by a policy with the
// defaults of its flags.
func Loop(policy string) Change {
	return func(s *cluster.Settings) {
		s.EmbedKafka, s.Count["predictor"], s.Count["scaler"] = true, 1, 1
		s.Services.Scaler = scaler.Config{
			Scaling: policy, CV: 0.2, MemoryCap: 8_000_000_000, KeepAlive: time.Minute, Horizon: 10 * time.Second, Worth: 0.01,
		}
	}
}

// Pages returns how many pages of keys and values an attention replica has.
func Pages(n int) Change {
	return func(s *cluster.Settings) {
		s.Services.Attention.KVBytes = PageBytes(s.Node.Shared.Model, n)
	}
}

// PageBytes returns the bytes of so many pages of a model.
func PageBytes(m *model.Model, n int) int64 {
	shape := kvcache.ShapeOf(&m.Spec)
	return int64(n) * shape.PageBytes()
}

// Paced has hosts compute in the time of a device: the name of a profile, or a file.
func Paced(t testing.TB, profile string) Change {
	t.Helper()
	p, err := profiles.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	return func(s *cluster.Settings) { s.Services.Expert.Profile = p }
}

// Open opens the checkpoint in a folder.
func Open(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Demo returns the demo model.
func Demo(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Turns have each request wait for a plan of its own, with what Rented has made.
func Turns(turns *scaler.Turns) Change {
	return func(s *cluster.Settings) {
		r := s.Services.Scaler.Rent
		r.Turns, r.Each, r.Window, r.Worth, r.SLO.TTFT = turns, true, 1, 0, 5
		s.Services.Attention.Before, s.Services.Attention.MaxSequences = turns.Before, 1
	}
}

// Rented has hosts stand for a quick serverless platform, whose functions hold half of a layer's
// experts at most and have two replicas, and a scaler plan by Remoe.
func Rented(t testing.TB) Change {
	t.Helper()
	return func(s *cluster.Settings) {
		m, err := cluster.RentedModel(s.Node.Shared.Model)
		if err != nil {
			t.Fatal(err)
		}
		const prompt, answer = 32, 16
		half := float64(m.Experts/2)*m.Expert + m.Token*prompt*float64(m.TopK)
		y := &serverless.System{
			Model: m, Main: []float64{4*m.All() + half}, Replicas: 2, Network: 1e9, Switch: cost.Link{Bandwidth: 1e9},
			Functions: cost.Platform{
				Sizes: []float64{half}, PerCPU: half, CPU: cost.Roofline{Bandwidth: 1e9, Rate: 1e12, ElementBytes: 2}, Container: 0.01,
				Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 1e-4, Payload: 2 * m.Token, Prices: cost.Prices{Memory: 1e-5},
			},
			GPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e14, ElementBytes: 2}, GPUPrice: 3e-5,
		}
		s.Services.Expert.Rent = &expert.Rent{Name: "made-up", System: y, Seed: 1}
		s.Services.Gate.Payload = y.Functions.Payload
		Loop("static")(s)
		s.Count["predictor"] = 0
		s.Services.Scaler.Rent = &scaler.Rent{SharedSettings: remoe.SharedSettings{
			System: y, Plan: remoe.Settings{Step: 1e-9}, SLO: serverless.SLO{TTFT: 60, TPOT: 10}, Most: prompt, Output: answer, Window: 4, Worth: 0.02,
		}}
	}
}

// Valve holds rows in the gates of a pipeline while it is shut: a test does something in the
// middle of an answer, however long that takes, and the answer goes on behind it.
type Valve struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when it opens; nil: it is open
	steps map[uint64]bool
	at    int // at which step of generated tokens it shuts; 0: it does not by itself
}

// In has the gates of a pipeline pass rows through the valve, which is open.
func (v *Valve) In(s *cluster.Settings) {
	s.Services.Gate.Fates = func(h *pb.Hidden) *pb.Fates {
		if shut := v.meet(h); shut != nil {
			<-shut
		}
		return nil
	}
}

// meet returns what rows wait for; nil: they pass.
func (v *Valve) meet(h *pb.Hidden) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	generated := func(p *pb.PhaseRange) bool { return p.Phase == pb.Phase_PHASE_DECODE }
	if v.at > 0 && slices.ContainsFunc(h.Phases, generated) {
		if v.steps[h.Key.Step] = true; len(v.steps) == v.at {
			v.at, v.shut = 0, make(chan struct{})
		}
	}
	return v.shut
}

// Shut holds rows until Open, or the test's end.
func (v *Valve) Shut(t testing.TB) {
	t.Helper()
	t.Cleanup(v.Open)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

// ShutAt holds the next answer at its step of that number behind the prompt, until Open or the test's
// end, however late the test sees what was made: as many tokens, and more where drafts were right. No
// other answer is under way.
func (v *Valve) ShutAt(t testing.TB, step int) {
	t.Helper()
	t.Cleanup(v.Open)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps, v.at = map[uint64]bool{}, step
}

// Open lets all rows pass.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at = 0
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}
