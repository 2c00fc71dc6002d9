package cuda

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// decoders are the committed checkpoints whose attention a GPU computes.
var decoders = []string{
	"mixtral", "mixtral-window", "qwen3_moe", "qwen2_moe", "qwen2_moe-mixed", "olmoe", "phimoe", "gpt_oss", "gpt_oss-mxfp4", "llama4",
	"llama4-interleaved", "gpt2_moe", "gpt2_moe-top1", "deepseek_v2", "deepseek_v2-grouped", "deepseek_v3",
}

func newAttentionGPU(t testing.TB) *fake.Device {
	t.Helper()
	gpu := fake.New(fake.Settings{Kernels: fake.Backbone()})
	t.Cleanup(func() { _ = gpu.Close() }) // says only that it is closed
	return gpu
}

// spine is a whole model: its backbone here or there, gates and experts on the CPU.
type spine struct {
	m        *model.Model
	backbone *forward.Backbone
	on       *Backbone // or nil
	kv       *kvcache.Pool
	step     *forward.Step
}

// small settings of a backbone.
func backboneSettings(parts int) BackboneSettings {
	return BackboneSettings{Memory: 40 << 20, Parts: parts, Positions: 512, Rows: 80, Lanes: 2}
}

// spineOn is one with its backbone on a GPU, or on the CPU without a driver.
func spineOn(t testing.TB, m *model.Model, driver cuda.Driver, s BackboneSettings) *spine {
	t.Helper()
	p := pool.New(1)
	t.Cleanup(p.Close)
	y := &spine{m: m}
	var err error
	if driver == nil {
		y.backbone, err = forward.LoadBackbone(m, p, s.Positions)
	} else if y.on, err = OpenBackbone(t.Context(), m, p, driver, images, s); err == nil {
		t.Cleanup(y.on.Close)
		y.backbone = forward.NewBackbone(&m.Spec, y.on)
	}
	if err != nil {
		t.Fatal(err)
	}
	if y.kv, err = y.backbone.NewPool(s.Rows, 8<<20); err != nil {
		t.Fatal(err)
	}
	router, err := forward.LoadRouter(m, p)
	if err != nil {
		t.Fatal(err)
	}
	experts := device.NewCPU(m, p, device.Settings{})
	t.Cleanup(experts.Close)
	if err := device.LoadAll(t.Context(), experts, m.Spec); err != nil {
		t.Fatal(err)
	}
	y.step = &forward.Step{Backbone: y.backbone, MoE: &forward.Local{Gates: router, Experts: experts, Wire: tensor.F32, Hidden: m.Spec.Hidden, Pool: p}}
	return y
}

// rows are those of a sequence's ids from a position on, all with logits.
func rowsOf(table *kvcache.Table, ids []uint32, from int) (rows []forward.Row) {
	for i, id := range ids {
		rows = append(rows, forward.Row{Table: table, ID: id, Position: from + i, Logits: true})
	}
	return rows
}

// logits takes rows through the layers, all of which want logits.
func logits(ctx context.Context, s *forward.Step, rows []forward.Row) (out []float32, err error) {
	if err := s.Run(ctx, rows); err != nil {
		return nil, err
	}
	err = s.Logits(ctx, func(_ []int, l []float32) { out = append(out, l...) })
	return out, err
}

// prefill is the logits of a prompt in pieces of so many rows.
func (y *spine) prefill(t testing.TB, ids []uint32, pieces ...int) (out []float32) {
	t.Helper()
	table, err := y.kv.Reserve(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	from := 0
	for _, n := range pieces {
		some, err := logits(t.Context(), y.step, rowsOf(table, ids[from:from+n], from))
		if err != nil {
			t.Fatal(err)
		}
		out, from = append(out, some...), from+n
	}
	return out
}

func idsFor(m *model.Model, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32((17*i*i + 5*i + 3) % m.Spec.Vocab)
	}
	return ids
}

// farthest is the largest difference in relation to the numbers' size.
func farthest(a, b []float32) float64 {
	d, size := 0.0, 1.0
	for i := range a {
		if diff := math.Abs(float64(a[i] - b[i])); !(diff <= d) {
			d = diff
		}
		size = max(size, math.Abs(float64(b[i])))
	}
	return d / size
}

// inFP8 is a checkpoint whose layers' matrices are FP8.
func inFP8(t *testing.T, name string) *model.Model {
	t.Helper()
	packed, _ := modeltest.FP8(t, goldens.Dir(name))
	return modeltest.Open(t, packed)
}

// quantised are the checkpoints whose attention is compared in FP8, too.
var quantised = []string{"qwen2_moe", "deepseek_v3", "deepseek_v2-grouped"}

// wideHeads is a model whose first layer has heads of 192, of which four share a KV head,
// and the second of 16.
func wideHeads(t testing.TB) *model.Model {
	m := modeltest.Tiny(t)
	x := &m.Spec.Layer[0].Mixer
	x.KVHeads, x.HeadDim, x.ValueDim, x.Rope.Dim, x.Scale = 1, 192, 192, 192, float32(1/math.Sqrt(192))
	return m
}

// The logits of whole models are the CPU's: a prompt over a page, then a token.
func TestBackboneAgreesWithCPU(t *testing.T) {
	for _, name := range quantised {
		t.Run(name+" in FP8", func(t *testing.T) { backboneAgrees(t, inFP8(t, name), newAttentionGPU(t), 41) })
	}
	t.Run("wide heads", func(t *testing.T) { backboneAgrees(t, wideHeads(t), newAttentionGPU(t), 41) })
	for _, name := range testkit.Some(decoders) {
		t.Run(name, func(t *testing.T) { backboneAgrees(t, modeltest.Golden(t, name), newAttentionGPU(t), 41) })
	}
}

func backboneAgrees(t *testing.T, m *model.Model, driver cuda.Driver, n int) {
	t.Helper()
	s := backboneSettings(2)
	got := spineOn(t, m, driver, s).prefill(t, idsFor(m, n), n-1, 1)
	want := spineOn(t, m, nil, s).prefill(t, idsFor(m, n), n-1, 1)
	if d := farthest(got, want); !(d < 2e-3) || len(got) != len(want) {
		t.Errorf("logits differ by %v", d)
	}
}

// A sequence has the same bits in pieces, in tiles or splits, and beside others.
func TestBackboneBatchInvariant(t *testing.T) {
	t.Run("wide heads", func(t *testing.T) { backboneInvariant(t, wideHeads(t), newAttentionGPU(t), 2) })
	for _, name := range []string{"mixtral-window", "deepseek_v3"} {
		t.Run(name, func(t *testing.T) { backboneInvariant(t, modeltest.Golden(t, name), newAttentionGPU(t), 2) })
	}
}

// A GPU whose blocks have too little shared memory for tiles attends in splits, with the
// same bits; one that has too little for those, too, is refused with both numbers.
func TestLittleShared(t *testing.T) {
	m, s := wideHeads(t), backboneSettings(2)
	withShared := func(bytes int) *fake.Device {
		gpu := fake.New(fake.Settings{Kernels: fake.Backbone(), Info: cuda.Info{Name: "little", Arch: cuda.Arch{Major: 9}, Memory: 64 << 20, Shared: bytes}})
		t.Cleanup(func() { _ = gpu.Close() }) // says only that it is closed
		return gpu
	}
	const tile, split = 320*2*256 + 4096, 288*2*256 + 2048
	little := spineOn(t, m, withShared(tile-1), s)
	if little.on.kernels.tiled {
		t.Error("it has tiles")
	}
	want := spineOn(t, m, withShared(tile), s).prefill(t, idsFor(m, 20), 20)
	if got := little.prefill(t, idsFor(m, 20), 20); !slices.Equal(got, want) {
		t.Error("splits give other bits than tiles")
	}
	var short *cuda.SharedError
	_, err := OpenBackbone(t.Context(), m, nil, withShared(split-1), images, s)
	if !errors.As(err, &short) || short.Need != split || short.Have != split-1 {
		t.Errorf("%v", err)
	}
}

func backboneInvariant(t *testing.T, m *model.Model, driver cuda.Driver, parts int) {
	t.Helper()
	const n = 37
	s := backboneSettings(parts)
	s.Memory = 60 << 20
	y, ids := spineOn(t, m, driver, s), idsFor(m, n)
	want := y.prefill(t, ids, n)
	for _, pieces := range [][]int{slices.Repeat([]int{1}, n), {20, 1, 16}, {5, 32}} {
		if got := y.prefill(t, ids, pieces...); !slices.Equal(got, want) {
			t.Errorf("pieces %v: other bits", pieces)
		}
	}
	for _, others := range []int{1, 8, 43} {
		if got := y.beside(t, ids, others); !slices.Equal(got, want) {
			t.Errorf("beside %d rows: other bits", others)
		}
	}
}

// beside is the logits of a prompt in one step with so many other sequences' first rows.
func (y *spine) beside(t testing.TB, ids []uint32, others int) []float32 {
	t.Helper()
	var rows []forward.Row
	for i := range others + 1 {
		table, err := y.kv.Reserve(len(ids))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Release()
		if i == others/2 {
			rows = append(rows, rowsOf(table, ids, 0)...)
			continue
		}
		rows = append(rows, forward.Row{Table: table, ID: uint32(i)})
	}
	out, err := logits(t.Context(), y.step, rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is wrong when a backbone opens is a typed error that says what to do, and nothing
// is left on the GPU.
func TestOpenBackboneRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*model.Model)
		fault  func(*fake.Faults)
		memory int64
		is     error
		as     any
		says   string
	}{
		{name: "taken by others", fault: func(f *fake.Faults) { f.Take(40 << 20) }, is: cuda.ErrMemory, as: new(*cuda.MemoryError), says: "41943040 bytes"},
		{name: "no room for weights", memory: 100 << 10, is: cuda.ErrMemory, as: new(*cuda.RoomError), says: "attention of model mixtral"},
		{name: "no room for lanes", memory: 4 << 20, is: cuda.ErrMemory, as: new(*cuda.RoomError), says: "a lane of attention"},
		{
			name: "no kernels", change: func(m *model.Model) { m.Spec.Layer[1].Mixer.HeadDim, m.Spec.Layer[1].Mixer.ValueDim = 512, 512 }, as: new(*FamilyError),
			says: "attention of mixtral is not on the GPU yet (layer 1: heads of 512, more than 256): use --device cpu for attention",
		},
		{name: "driver refuses the image", fault: func(f *fake.Faults) { f.BadImage(cuda.CodeUnsupportedPTX) }, is: cuda.ErrImage, as: new(*cuda.Error)},
		{name: "lost at once", fault: func(f *fake.Faults) { f.Lose(cuda.CodeECC) }, is: cuda.ErrLost, as: new(*cuda.Error)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := fake.New(fake.Settings{Kernels: fake.Backbone()})
			defer gpu.Close() //nolint:errcheck // says only that it is closed
			if tt.fault != nil {
				tt.fault(gpu.Faults)
			}
			s, m := backboneSettings(2), modeltest.Golden(t, "mixtral")
			if tt.memory > 0 {
				s.Memory = tt.memory
			}
			if tt.change != nil {
				tt.change(m)
			}
			_, err := OpenBackbone(t.Context(), m, nil, gpu, images, s)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !errors.As(err, tt.as) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("%T: %v", err, err)
			}
			if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
				t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
			}
		})
	}
}
