package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// gpu is a fake one, and how often it was opened and is open. Close adds up what was copied to it.
type gpu struct {
	*gpus.GPU
	opened, open, copied *atomic.Int64
}

func newGPU(k map[string]fake.Kernel, memory uint64) gpu {
	g := gpu{opened: &atomic.Int64{}, open: &atomic.Int64{}, copied: &atomic.Int64{}}
	g.GPU = &gpus.GPU{
		Info: fake.New(fake.Settings{}).Info(), Memory: memory,
		Backend: cudabackend.Backend{Images: kernels.Images{"experts.sm_90a.cubin": {1}}, Driver: func() (kernels.Driver, error) {
			g.opened.Add(1)
			g.open.Add(1)
			return closing{fake.New(fake.Settings{Kernels: k}), g.open, g.copied}, nil
		}},
	}
	return g
}

// closing counts that it is closed.
type closing struct {
	*fake.Device
	open, copied *atomic.Int64
}

func (c closing) Close() error {
	c.open.Add(-1)
	c.copied.Add(c.Copied())
	return c.Device.Close()
}

// rig is a tiny model, and what a benchmark of it is opened with.
type rig struct {
	m       *model.Model
	threads *pool.Pool
	of      cluster.Services
	devices *Devices
}

func newRig(t *testing.T, change func(*cluster.Services)) *rig {
	t.Helper()
	m, err := model.Synthetic("tiny", Seed)
	if err != nil {
		t.Fatal(err)
	}
	m.Generation = model.Generation{DoSample: true, Temperature: 1, TopP: 1, RepetitionPenalty: 2} // of no consequence
	r := &rig{m: m, threads: pool.New(1)}
	r.of.Attention.MaxRows = 256
	t.Cleanup(r.threads.Close)
	change(&r.of)
	return r
}

// open opens both sides, on the same devices.
func (r *rig) open(t *testing.T, s Settings) *Bench {
	t.Helper()
	var err error
	if r.devices, err = OpenDevices(t.Context(), r.m, r.threads, tensor.BF16, r.of, ContextFor(s.prompt())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.devices.Close)
	s.Model, s.Pool, s.Wire, s.Hops, s.Devices = r.m, r.threads, "bf16", "unacked", r.devices
	s.Rounds, s.Seconds, s.Progress, s.Open = 2, 0.001, func(string, ...any) {}, r.pipeline
	b, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (r *rig) pipeline(ctx context.Context, hops string) (*cluster.Cluster, error) {
	s, err := clustertest.Settings(ctx, r.m, tensor.BF16, schemas.Hops(hops))
	if err != nil {
		return nil, err
	}
	if r.of.Expert.GPU != nil { // whose process says with all metrics what computes
		if err := s.Node.Shared.Telemetry.Close(); err != nil {
			return nil, err
		}
		if s.Node.Shared.Telemetry, err = telemetry.Setup(ctx, telemetry.Config{ServiceName: "test", Device: "cuda:fake"}); err != nil {
			return nil, err
		}
	}
	s.Node.Shared.Pool.Close()
	s.Node.Shared.Pool, s.Node.KeepPool, s.Node.KeepModel = r.threads, true, true
	s.Services.Expert.GPU, s.Services.Expert.Device, s.Services.Gate.GPU = r.of.Expert.GPU, r.devices.Experts, r.of.Gate.GPU
	if r.of.Attention.GPU != nil {
		s.Services.Attention.KVBytes, s.Services.Attention.GPU, s.Services.Attention.MaxRows = 0, r.of.Attention.GPU, r.of.Attention.MaxRows
	}
	return cluster.Open(ctx, s)
}

// Both sides compute on the same GPUs, in steps that those have room for, and give the same
// tokens. The experts are loaded once, also for the pipelines with other hops.
func TestDevicesOnGPU(t *testing.T) {
	const prompt, rows = 40, 16
	experts, attention, gates := newGPU(fake.Experts(), 60<<20), newGPU(fake.Backbone(), 60<<20), newGPU(fake.Gates(), 0)
	t.Run("all", func(t *testing.T) {
		r := newRig(t, func(s *cluster.Services) {
			s.Expert.GPU, s.Attention.GPU, s.Gate.GPU, s.Attention.MaxRows = experts.GPU, attention.GPU, gates.GPU, rows
		})
		b := r.open(t, Settings{Prompt: prompt, Breakdown: true, Stages: true})
		got, err := b.Measure(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		name := "cuda:" + experts.Info.Name
		if got.Names != (Names{name, name, name}) || got.Prompt != prompt || got.Bandwidth != 0 || got.Flops != 0 || got.Read <= 0 || got.Done <= 0 {
			t.Errorf("%+v", got)
		}
		if got.Rows <= 0 || got.Messages <= 0 || got.Bytes <= 0 || got.Stages.Step <= 0 || got.Stages.Together <= 0 || len(got.Parts) == 0 {
			t.Errorf("of the steps: %+v, %+v", got, got.Stages)
		}
		for _, f := range []FirstToken{got.PipelineFirst, got.DirectFirst} {
			if f.Requests != 4 || f.P50 <= 0 || f.P99 < f.P50 {
				t.Errorf("first tokens: %+v", f)
			}
		}
		if !strings.Contains(got.String(), name+": pipeline ") || !strings.Contains(got.String(), "first token of a prompt of 40 tokens: pipeline ") {
			t.Error(got)
		}
		sameTokens(t, b, 24)
		if experts.opened.Load() != 1 || gates.opened.Load() != 4 || attention.opened.Load() != 4 {
			t.Errorf("opened: experts %d times, gates %d, attention %d", experts.opened.Load(), gates.opened.Load(), attention.opened.Load())
		}
	})
	for name, g := range map[string]gpu{"experts": experts, "attention": attention, "gates": gates} {
		if n := g.open.Load(); n != 0 {
			t.Errorf("%s: %d are open still", name, n)
		}
	}
}

// Random weights are made on GPUs: what is copied there are two tables for experts, and of
// attention a small part of its weights.
func TestRandomOnGPU(t *testing.T) {
	experts, attention := newGPU(fake.Experts(), 60<<20), newGPU(fake.Backbone(), 60<<20)
	r := newRig(t, func(s *cluster.Services) {
		s.Expert.GPU, s.Attention.GPU, s.Attention.MaxRows = experts.GPU, attention.GPU, 16
	})
	devices, err := OpenDevices(t.Context(), r.m, r.threads, tensor.BF16, r.of, Context)
	if err != nil {
		t.Fatal(err)
	}
	devices.Close()
	const table = 2 * 4096
	if n := experts.copied.Load(); n != 2*table {
		t.Errorf("%d bytes were copied for %d of experts", n, 2*r.m.Spec.Parameters().Total)
	}
	if n := attention.copied.Load(); n > 5*table {
		t.Errorf("%d bytes were copied for attention", n)
	}
}

// sameTokens wants both sides to answer with the same ones.
func sameTokens(t *testing.T, b *Bench, tokens int) {
	t.Helper()
	seqs, err := b.direct.add(1, b.direct.prompt, tokens)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(seqs)
	for range tokens {
		if err := b.direct.runner.Step(t.Context(), seqs); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := b.pipeline.client.Prompt(t.Context(), greedyPrompt(promptIDs(0, b.direct.prompt, b.pipeline.vocab), tokens))
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for chunk, err := range stream.Chunks() {
		if err = errors.Join(err, client.Failure(chunk)); err != nil {
			t.Fatal(err)
		}
		got = append(got, chunk.TokenIds...)
	}
	if want := seqs[0].Generated(); !slices.Equal(got, want) {
		t.Errorf("the pipeline's tokens are %v, the direct path's %v", got, want)
	}
}

// On the CPU both sides have the same experts, and the machine's ceilings count.
func TestDevicesOnCPU(t *testing.T) {
	r := newRig(t, func(*cluster.Services) {})
	b := r.open(t, Settings{})
	got, err := b.Measure(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for range r.m.Spec.Experts * r.m.Spec.Layers {
		all += 2 * r.m.Spec.ExpertParameters()
	}
	if used := r.devices.Experts.Memory().Used; used != all {
		t.Errorf("%d bytes of experts, want %d", used, all)
	}
	if got.Names != (Names{"cpu", "cpu", "cpu"}) || got.Prompt != PromptLength || got.Bandwidth <= 0 || got.Flops <= 0 || got.PrefillFlops <= 0 {
		t.Errorf("%+v", got)
	}
	sameTokens(t, b, 8)
	var fields map[string]any
	text, err := json.Marshal(got)
	if err = errors.Join(err, json.Unmarshal(text, &fields)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"model", "batch", "grouping", "wire", "pipeline_tokens_per_s", "direct_tokens_per_s", "ratio", "direct_bandwidth_ratio", "direct_flops_ratio",
		"device", "attention_device", "gate_device", "prompt_tokens", "pipeline_ttft", "direct_ttft", "direct_prefill_tokens",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no %s in %s", name, text)
		}
	}
}

// What is told of a prefill is of the prompts that were measured, in a model with fewer
// positions, too.
func TestPrefillTold(t *testing.T) {
	for _, tc := range []struct{ positions, tokens int }{{4096, 512}, {128, 128}} {
		r := newRig(t, func(*cluster.Services) {})
		r.m.Spec.MaxPositions = tc.positions
		b := r.open(t, Settings{})
		got, err := b.Measure(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if want := b.prefill * r.m.Spec.PromptFLOPs(tc.tokens) / float64(tc.tokens) / b.machine.flops; got.PrefillTokens != tc.tokens || got.PrefillFlops != want {
			t.Errorf("%d positions: %d tokens at %v of the peak, want %d at %v", tc.positions, got.PrefillTokens, got.PrefillFlops, tc.tokens, want)
		}
		if want := fmt.Sprintf("(prefill of %d: ", tc.tokens); !strings.Contains(got.String(), want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// watched gates remember the most rows that they had at once.
type watched struct {
	forward.Gates
	hidden, most int
}

func (w *watched) Route(layer int, x []float32, out *forward.Routes) error {
	w.most = max(w.most, len(x)/w.hidden)
	return w.Gates.Route(layer, x, out)
}

// Steps of the direct path have as many rows as the pipeline's, but for prompts of 512.
func TestDirectRows(t *testing.T) {
	const rows = 24
	r := newRig(t, func(s *cluster.Services) { s.Attention.MaxRows = rows })
	devices, err := OpenDevices(t.Context(), r.m, r.threads, tensor.BF16, r.of, Context)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(devices.Close)
	gates, err := forward.LoadRouter(r.m, r.threads)
	if err != nil {
		t.Fatal(err)
	}
	seen := &watched{Gates: gates, hidden: r.m.Spec.Hidden}
	devices.on.Gates = seen
	s, err := newDirectSide(Settings{Model: r.m, Pool: r.threads, Wire: "bf16", Devices: devices, Prompt: 40})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.prefill(t.Context(), 0, s.runner.Step); err != nil || seen.most != prefillLength {
		t.Errorf("a prompt of 512 had %d rows at once: %v", seen.most, err)
	}
	seen.most = 0
	s.bound()
	if _, err := s.decode(t.Context(), 30, 3); err != nil || seen.most != rows {
		t.Errorf("%d rows at once, want %d: %v", seen.most, rows, err)
	}
	devices.kv = 1 // too little memory is no fault of the weights
	var of *deployment.WeightsError
	if _, err := newDirectSide(Settings{Model: r.m, Pool: r.threads, Wire: "bf16", Devices: devices, Prompt: 40}); err == nil || errors.As(err, &of) {
		t.Errorf("error %v", err)
	}
}

// Only weights that do not mend themselves are told as such.
func TestUnloadedDirect(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&direct.LoadError{Err: errors.New("a scale is NaN")}, true},
		{&direct.LoadError{Err: &weights.ObjectError{Model: "m", Object: "layer.1", Err: weights.ErrSlow}}, false},
		{errors.New("no room for keys and values"), false},
	} {
		var of *deployment.WeightsError
		got := unloadedDirect(tt.err)
		if errors.As(got, &of) != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("%v", got)
		}
	}
}

// What does not fit is refused, and says why.
func TestDevicesWithoutRoom(t *testing.T) {
	t.Run("experts", func(t *testing.T) {
		experts := newGPU(fake.Experts(), 1<<20)
		r := newRig(t, func(s *cluster.Services) { s.Expert.GPU = experts.GPU })
		room := &kernels.RoomError{}
		err := error(room)
		for errors.As(err, &room) { // until there are buffers and one expert
			experts.Memory += uint64(room.Need - room.Rest)
			_, err = OpenDevices(t.Context(), r.m, r.threads, tensor.BF16, r.of, Context)
		}
		var refused *device.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "both sides have all experts of model tiny on one device") {
			t.Errorf("with %d bytes: %v", experts.Memory, err)
		}
		if n := experts.open.Load(); n != 0 {
			t.Errorf("%d are open", n)
		}
	})
	for _, tc := range []struct{ name, want string }{
		{"batch on the CPU", "sequences of 4008 tokens: take a smaller --batch or --prompt-tokens"},
		{"batch on a GPU", "sequences of 4008 tokens: take a smaller --batch or --prompt-tokens, or a larger --attention-gpu-memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(s *cluster.Services) {
				if strings.HasSuffix(tc.name, "GPU") {
					s.Attention.GPU = newGPU(fake.Backbone(), 60<<20).GPU
				}
			})
			devices, err := OpenDevices(t.Context(), r.m, r.threads, tensor.BF16, r.of, ContextFor(4000))
			if err != nil {
				t.Fatal(err)
			}
			defer devices.Close()
			_, err = Open(t.Context(), Settings{
				Model: r.m, Pool: r.threads, Wire: "bf16", Devices: devices, Prompt: 4000, Batches: []int{1, 1 << 20}, Progress: func(string, ...any) {},
				Open: func(context.Context, string) (*cluster.Cluster, error) {
					return nil, errors.New("a pipeline was started")
				},
			})
			var full *RoomError
			if !errors.As(err, &full) || full.Room < 1 || !strings.HasPrefix(err.Error(), "--batch has 1048576; ") || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
