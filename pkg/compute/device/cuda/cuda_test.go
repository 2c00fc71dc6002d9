package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// images are what the fake takes for images.
var images = cuda.Images{"experts.sm_90a.cubin": {1}}

func newGPU(t testing.TB) *fake.Device {
	t.Helper()
	gpu := fake.New(fake.Settings{Kernels: fake.Experts()})
	t.Cleanup(func() { _ = gpu.Close() }) // says only that it is closed
	return gpu
}

// small keeps what has to be made for each test small.
const small = 2 << 20

func openOn(t testing.TB, gpu *fake.Device, m *model.Model, rows int) *Device {
	t.Helper()
	d, err := open(m, gpu, images, Settings{Memory: small, Parts: 2}, tuning{rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// faulty lets devicetest say how loads go.
type faulty struct {
	device.Loader[*expert]
	begin func(context.Context, forward.ExpertID) error
}

func (f faulty) Load(ctx context.Context, id forward.ExpertID) (*expert, error) {
	if err := f.begin(ctx, id); err != nil {
		return nil, err
	}
	return f.Loader.Load(ctx, id)
}

func TestConforms(t *testing.T) {
	m := modeltest.Tiny(t)
	devicetest.Conform(t, func(t testing.TB, s device.Settings) (device.Device, *devicetest.Faults) {
		f := &devicetest.Faults{}
		gpu := fake.New(fake.Settings{Kernels: fake.Experts()})
		d, err := open(m, gpu, images, Settings{Settings: s, Memory: small, Parts: 2}, tuning{rows: 64, through: func(l device.Loader[*expert]) device.Loader[*expert] {
			return faulty{l, f.Begin}
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			d.Close()
			if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
				t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
			}
			_ = gpu.Close() // says only that it is closed
		})
		return d, f
	})
}

// The results are the CPU's, within what bf16 parts lose.
func TestAgreesWithCPU(t *testing.T) {
	p := pool.New(1)
	t.Cleanup(p.Close)
	for name, m := range models(t) {
		c := device.NewCPU(m, p, device.Settings{})
		t.Cleanup(c.Close)
		for _, kernels := range []cuda.Kernels{cuda.Mma, cuda.Wgmma} {
			t.Run(fmt.Sprintf("%s by %s", name, kernels), func(t *testing.T) {
				d, err := open(m, newGPU(t), images, Settings{Memory: small, Parts: 2, Kernels: kernels}, tuning{rows: 80})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(d.Close)
				agrees(t, m, d, c, 1e-4)
			})
		}
	}
}

// agrees wants a device's results to be a CPU's, but for a share.
func agrees(t *testing.T, m *model.Model, d, cpu device.Device, share float64) (in forward.Routed, got []float32) {
	t.Helper()
	in = rowsFor(m, 70)
	warmed(t, d, in.Layer, m.Spec.Experts)
	warmed(t, cpu, in.Layer, m.Spec.Experts)
	got, want := computed(t, d, in, m), computed(t, cpu, in, m)
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > share*(1+math.Abs(float64(want[i]))) {
			t.Fatalf("element %d is %v, %v on the CPU", i, got[i], want[i])
		}
	}
	return in, got
}

// models have experts of all activations and formats, with biases, and with weights in front.
func models(t *testing.T) map[string]*model.Model {
	t.Helper()
	all := map[string]*model.Model{}
	for _, name := range []string{"mixtral", "gpt_oss", "gpt_oss-mxfp4", "qwen2_moe", "bert_moe", "gpt2_moe", "llama4"} {
		all[name] = modeltest.Golden(t, name)
	}
	for _, name := range []string{"mixtral", "deepseek_v3"} {
		packed, _ := modeltest.FP8(t, goldens.Dir(name))
		all[name+" in FP8"] = modeltest.Open(t, packed)
	}
	return all
}

// rowsFor are rows for experts of a model's last layer with experts.
func rowsFor(m *model.Model, n int) forward.Routed {
	in := forward.Routed{X: make([]float32, 9*m.Spec.Hidden)}
	for l := range m.Spec.Layer {
		if m.Spec.Layer[l].MoE {
			in.Layer = l
		}
	}
	for i := range in.X {
		in.X[i] = float32(i*7%23)/16 - 0.6
	}
	for i := range n {
		in.Source = append(in.Source, uint32(i*5%9))
		in.Expert = append(in.Expert, uint32(i*i%min(3, m.Spec.Experts)))
		in.Weight = append(in.Weight, 0.25+float32(i%3)/4)
	}
	return in
}

func computed(t testing.TB, d device.Device, in forward.Routed, m *model.Model) []float32 {
	t.Helper()
	out := make([]float32, len(in.Expert)*m.Spec.Hidden)
	if err := d.Compute(in, out, &forward.ExpertScratch{}); err != nil {
		t.Fatal(err)
	}
	return out
}

func sameBits(t *testing.T, m *model.Model, got, want []float32) {
	t.Helper()
	for i, v := range got {
		if v != want[i] {
			t.Fatalf("of %d rows element %d is %v, %v among others", len(got)/m.Spec.Hidden, i, v, want[i])
		}
	}
}

// A call of more rows than a lane has is computed in pieces, with the same bits.
func TestPieces(t *testing.T) {
	m := modeltest.Tiny(t)
	whole, cut := openOn(t, newGPU(t), m, 64), openOn(t, newGPU(t), m, 7)
	in := rowsFor(m, 40)
	for _, d := range []*Device{whole, cut} {
		warmed(t, d, in.Layer, m.Spec.Experts)
	}
	a, b := computed(t, whole, in, m), computed(t, cut, in, m)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("element %d is %v in pieces, else %v", i, b[i], a[i])
		}
	}
}

// A GPU with less shared memory has the smaller tiles alone, and gives the same bits.
func TestLessSharedMemory(t *testing.T) {
	m, info := modeltest.Tiny(t), newGPU(t).Info()
	in := forward.Routed{X: make([]float32, 70*m.Spec.Hidden)}
	for i := range in.X {
		in.X[i] = float32(i*7%23)/16 - 0.6
	}
	for i := range 70 {
		in.Source, in.Expert, in.Weight = append(in.Source, uint32(i)), append(in.Expert, 0), append(in.Weight, 0.5)
	}
	var bits [][]float32
	for _, tt := range []struct{ shared, tile int }{{227 << 10, 128}, {99 << 10, 32}, {48 << 10, 8}} {
		info.Shared = tt.shared
		gpu := fake.New(fake.Settings{Info: info, Kernels: fake.Experts()})
		t.Cleanup(func() { _ = gpu.Close() }) // says only that it is closed
		d := openOn(t, gpu, m, 80)
		if err := d.Load(t.Context(), forward.ExpertID{}, 0).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		bits = append(bits, computed(t, d, in, m))
		if got := d.all[0].kernels.variantFor(bf16, 70).tile; got != tt.tile || !slices.Equal(bits[0], bits[len(bits)-1]) {
			t.Errorf("with %d bytes 70 rows are tiles of %d, want %d", tt.shared, got, tt.tile)
		}
	}
}

// Nothing is allocated on the device once it is open.
func TestNothingAllocatedInAStep(t *testing.T) {
	m, gpu := modeltest.Tiny(t), newGPU(t)
	d := openOn(t, gpu, m, 80)
	before, _, _ := gpu.Left()
	gpu.Faults.NoAlloc()
	in := rowsFor(m, 20)
	for e := range m.Spec.Experts {
		if err := d.Load(t.Context(), forward.ExpertID{Layer: in.Layer, Expert: e}, 0).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	computed(t, d, in, m)
	if after, _, _ := gpu.Left(); after != before {
		t.Errorf("%d bytes are allocated, %d when it opened", after, before)
	}
}

// A load that is cancelled under its copies stops between its buffers. It gives its slot
// back when the copies are over, and not before.
func TestCancelledUnderCopies(t *testing.T) {
	m, gpu := modeltest.Golden(t, "mixtral"), newGPU(t)
	d, err := open(m, gpu, images, Settings{Memory: small, Parts: 2}, tuning{rows: 80, buffer: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	let := gpu.Faults.HoldCopies()
	defer let()
	ticket := d.Load(t.Context(), forward.ExpertID{}, 0)
	testkit.Eventually(t, "a copy is under way", func() bool { return gpu.Faults.Waiting() == 1 })
	ticket.Release()
	if err := ticket.Wait(t.Context()); !errors.Is(err, device.ErrCancelled) {
		t.Fatal(err)
	}
	gpu.Faults.Pass() // the load looks whether it is cancelled, under the next copy
	for range 10 {
		if st, free := d.State(forward.ExpertID{}), taken(d.loader.slots); st.Bytes == 0 || free != d.loader.slots.Count()-1 {
			t.Fatalf("the slot is free under its copies: %+v, %d are free", st, free)
		}
		time.Sleep(time.Millisecond)
	}
	let()
	testkit.Eventually(t, "the load is over", func() bool { return d.State(forward.ExpertID{}).Phase != device.Loading })
	if st, free := d.State(forward.ExpertID{}), taken(d.loader.slots); st.Phase != device.Cold || d.Memory().Used != 0 || free != d.loader.slots.Count() {
		t.Errorf("%+v, %d bytes are used, %d slots free", st, d.Memory().Used, free)
	}
}

// taken is how many slots can be taken; it gives them back.
func taken(s *cuda.Slots) (n int) {
	var all []cuda.Ptr
	for p, ok := s.Take(); ok; p, ok = s.Take() {
		all = append(all, p)
	}
	for _, p := range all {
		s.Give(p)
	}
	return len(all)
}
