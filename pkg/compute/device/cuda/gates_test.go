package cuda

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

func newGateGPU(t testing.TB) *fake.Device {
	t.Helper()
	gpu := fake.New(fake.Settings{Kernels: fake.Gates()})
	t.Cleanup(func() { _ = gpu.Close() }) // says only that it is closed
	return gpu
}

func gatesOn(t testing.TB, m *model.Model, driver cuda.Driver) *Gates {
	t.Helper()
	g, err := OpenGates(t.Context(), m, driver, images, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// gated are the committed checkpoints with gates, and one whose gates are float32.
func gated(t testing.TB) map[string]*model.Model {
	t.Helper()
	all := map[string]*model.Model{}
	for _, name := range append([]string{"bert_moe", "bert2bert_moe", "gpt2_moe-top1"}, decoders...) {
		all[name] = modeltest.Golden(t, name)
	}
	_, floats := modeltest.FP8(t, goldens.Dir("gpt_oss"))
	all["float32"] = modeltest.Open(t, floats)
	return all
}

// Experts and weights are the CPU's, bit for bit, of every kind of gate: in one call, in
// pieces, and row by row.
func TestGatesAgreeWithCPU(t *testing.T) {
	for name, m := range gated(t) {
		t.Run(name, func(t *testing.T) { gatesAgree(t, m, gatesOn(t, m, newGateGPU(t))) })
	}
}

func gatesAgree(t *testing.T, m *model.Model, g *Gates) {
	t.Helper()
	p := pool.New(1)
	t.Cleanup(p.Close)
	router, err := forward.LoadRouter(m, p)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 19
	d, x := m.Spec.Hidden, hiddenRows(rows*m.Spec.Hidden)
	for l := range m.Spec.Layer {
		var want, got forward.Routes
		if err := router.Route(l, x, &want); err != nil {
			if g.Route(l, x, &got) == nil {
				t.Errorf("layer %d has a gate only here", l)
			}
			continue
		}
		for _, atOnce := range []int{rows, 7, 1} {
			g.rows = atOnce
			if err := g.Route(l, x, &got); err != nil {
				t.Fatal(err)
			}
			if got.K != want.K || !slices.Equal(got.Expert, want.Expert) || !slices.Equal(got.Weight, want.Weight) {
				t.Fatalf("layer %d, %d rows at a time: %v %v, on the CPU %v %v", l, atOnce, got.Expert, got.Weight, want.Expert, want.Weight)
			}
		}
		if err := g.Route(l, x[5*d:6*d], &got); err != nil || !slices.Equal(got.Weight, want.Weight[5*want.K:6*want.K]) {
			t.Fatalf("layer %d, a row alone: %v, %v among others, %v", l, got.Weight, want.Weight[5*want.K:6*want.K], err)
		}
	}
}

// hiddenRows are numbers without an order. The first are 0: of equal logits the lower expert is chosen.
func hiddenRows(n int) []float32 {
	x := make([]float32, n)
	for i := range x[n/19:] {
		x[n/19+i] = float32(i*i*7%1013)/507 - 1 + float32(i%17)/9
	}
	return x
}

// What goes wrong in a call is the device's fault, not the rows', and reports whether the next
// one can be made here: docs/cuda.md has the table.
func TestGateFaults(t *testing.T) {
	m := modeltest.Golden(t, "deepseek_v3")
	const layer = 1
	for _, tt := range []struct {
		name  string
		fault func(*fake.Faults) (end func())
		want  outcome
	}{
		{"launch refused", now(func(f *fake.Faults) { f.Refuse("route", cuda.CodeLaunchOutOfMemory, 1) }), outcome{call: cuda.ErrLaunch, next: true}},
		{"kernel fails", now(func(f *fake.Faults) { f.Break("route_logits_bf16", cuda.CodeIllegalAddress) }), outcome{call: cuda.ErrLost}},
		{"device lost before", now(func(f *fake.Faults) { f.Lose(cuda.CodeDeviceUnavailable) }), outcome{call: cuda.ErrLost}},
		{"kernel hangs", func(f *fake.Faults) func() { return f.HoldKernel("route") }, outcome{call: cuda.ErrLost}},
		{"copy hangs", (*fake.Faults).HoldCopies, outcome{call: cuda.ErrLost}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := newGateGPU(t)
			g := gatesOn(t, m, gpu)
			x := hiddenRows(3 * m.Spec.Hidden)
			var want, got forward.Routes
			if err := g.Route(layer, x, &want); err != nil {
				t.Fatal(err)
			}
			if errors.Is(tt.want.call, cuda.ErrLost) {
				g.patience = 20 * time.Millisecond
			}
			if end := tt.fault(gpu.Faults); end != nil {
				defer end()
			}
			err := g.Route(layer, x, &got)
			var device *forward.DeviceError
			if !errors.Is(err, tt.want.call) || !errors.As(err, &device) || device.Lost == tt.want.next {
				t.Fatalf("the call: %v, want %v", err, tt.want.call)
			}
			switch err := g.Route(layer, x, &got); {
			case (err == nil) != tt.want.next, (g.Err() == nil) != tt.want.next:
				t.Errorf("the next call: %v; the gates: %v", err, g.Err())
			case err == nil && !slices.Equal(got.Weight, want.Weight):
				t.Error("the next call gives other weights")
			}
		})
	}
}

// Gates take what they need when they open, nothing later, and give it back.
func TestGatesAllocateNothing(t *testing.T) {
	gpu := newGateGPU(t)
	m := modeltest.Golden(t, "gpt_oss")
	g := gatesOn(t, m, gpu)
	before, pinned, _ := gpu.Left()
	gpu.Faults.NoAlloc()
	if err := g.Route(0, hiddenRows(9*m.Spec.Hidden), &forward.Routes{}); err != nil {
		t.Fatal(err)
	}
	if after, now, _ := gpu.Left(); after != before || now != pinned || g.arena.Rest() != 0 {
		t.Errorf("%d bytes and %d pinned ones, %d and %d when it opened; %d of the arena are left", after, now, before, pinned, g.arena.Rest())
	}
	g.Close()
	if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
		t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
	}
}

// What is wrong when gates open is a typed error that says what to do, and nothing is left
// on the GPU.
func TestOpenGatesRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  func(*fake.Faults)
		change func(*model.Spec)
		shared int
		broken bool
		as     any
		says   string
	}{
		{name: "taken by others", fault: func(f *fake.Faults) { f.Take(64 << 20) }, as: new(*cuda.MemoryError), says: "this gate needs"},
		{name: "no shared memory", shared: 48 << 10, as: new(*cuda.SharedError), says: "need 51200"},
		{name: "too many experts", change: func(s *model.Spec) { s.Experts = 2049 }, as: new(*GateError), says: "the gate of layer 0 is not computed on GPUs (2049 experts, more than 2048): use --device cpu for gates"},
		{name: "too many a row", change: func(s *model.Spec) { s.TopK = 33 }, as: new(*GateError), says: "33 experts a row, more than 32"},
		{name: "too many groups", change: func(s *model.Spec) { s.Layer[0].Router.Groups = 64 }, as: new(*GateError), says: "64 groups of experts, more than 32"},
		{name: "unknown kind", change: func(s *model.Spec) { s.Layer[0].Router.Kind = 9 }, as: new(*GateError), says: "routing by"},
		{name: "not a number", broken: true, as: new(*NumberError), says: "is not a finite number"},
		{name: "driver refuses the image", fault: func(f *fake.Faults) { f.BadImage(cuda.CodeUnsupportedPTX) }, as: new(*cuda.Error)},
		{name: "lost at once", fault: func(f *fake.Faults) { f.Lose(cuda.CodeECC) }, as: new(*cuda.Error)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info := newGateGPU(t).Info()
			if tt.shared > 0 {
				info.Shared = tt.shared
			}
			gpu := fake.New(fake.Settings{Info: info, Kernels: fake.Gates()})
			defer gpu.Close() //nolint:errcheck // says only that it is closed
			m := modeltest.Golden(t, "mixtral")
			if tt.broken {
				m = spoiled(t, model.Ref{Role: model.Router, Layer: 1})
			}
			if tt.change != nil {
				tt.change(&m.Spec)
			}
			if tt.fault != nil {
				tt.fault(gpu.Faults)
			}
			_, err := OpenGates(t.Context(), m, gpu, images, 0)
			if err == nil || !errors.As(err, tt.as) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("%T: %v", err, err)
			}
			if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
				t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
			}
		})
	}
}
