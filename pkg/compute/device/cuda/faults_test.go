package cuda

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// What is wrong when a device opens is a typed error that says what to do, and
// nothing is left on the GPU.
func TestOpenRefuses(t *testing.T) {
	m := modeltest.Tiny(t)
	_, floats := modeltest.FP8(t, goldens.Dir("mixtral"))
	for _, tt := range []struct {
		name   string
		model  *model.Model
		info   cuda.Info
		fault  func(*fake.Faults)
		images cuda.Images
		memory int64
		is     error
		as     any
		says   string
	}{
		{name: "two hosts over its memory", fault: func(f *fake.Faults) { f.Take(40 << 20) }, memory: 48 << 20, is: cuda.ErrMemory, as: new(*cuda.MemoryError), says: "50331648 bytes"},
		{name: "taken meanwhile", fault: (*fake.Faults).NoAlloc, memory: 48 << 20, is: cuda.ErrMemory, as: new(*cuda.MemoryError), says: "lower --gpu-memory"},
		{name: "no room for lanes", memory: 1 << 20, is: cuda.ErrMemory, as: new(*cuda.RoomError), says: "give more"},
		{name: "driver refuses the image", fault: func(f *fake.Faults) { f.BadImage(cuda.CodeUnsupportedPTX) }, is: cuda.ErrImage, as: new(*cuda.Error), says: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
		{name: "image without the kernels", fault: func(f *fake.Faults) { f.BadImage(cuda.CodeNoBinary) }, is: cuda.ErrImage, as: new(*cuda.Error), says: "experts.sm_90a.cubin"},
		{name: "older architecture", info: cuda.Info{Name: "old", Arch: cuda.Arch{Major: 7, Minor: 5}, Memory: 64 << 20}, as: new(*cuda.ArchError), says: "sm_75"},
		{name: "no shared memory", info: cuda.Info{Name: "small", Arch: cuda.Arch{Major: 8}, Memory: 64 << 20, Shared: 40959}, images: cuda.Images{"experts.sm_80.cubin": {1}}, as: new(*cuda.SharedError), says: "need 40960"},
		{name: "no image for it", images: cuda.Images{"experts.sm_80.cubin": {1}}, as: new(*cuda.ArchError), says: "experts.sm_80.cubin"},
		{name: "no images", images: cuda.Images{}, as: new(*cuda.ArchError), says: "--device cpu"},
		{name: "lost at once", fault: func(f *fake.Faults) { f.Lose(cuda.CodeECC) }, is: cuda.ErrLost, as: new(*cuda.Error), says: "CUDA_ERROR_ECC_UNCORRECTABLE"},
		{name: "experts of float32", model: modeltest.Open(t, floats), as: new(*FormatError), says: "is F32; CUDA devices compute experts of BF16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := fake.New(fake.Settings{Info: tt.info, Kernels: fake.Experts()})
			defer gpu.Close() //nolint:errcheck // says only that it is closed
			if tt.fault != nil {
				tt.fault(gpu.Faults)
			}
			of, from := m, images
			if tt.model != nil {
				of = tt.model
			}
			if tt.images != nil {
				from = tt.images
			}
			_, err := Open(of, gpu, from, Settings{Memory: tt.memory, Parts: 2})
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !errors.As(err, tt.as) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("%T: %v", err, err)
			}
			if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
				t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
			}
		})
	}
}

// outcome is what a fault does to a call, to the next one, and to the host.
type outcome struct {
	call error // that the call ends with; nil: well
	next bool  // the next call is computed
	lost bool  // the host is told
	slow bool  // it takes the device's patience
}

// What goes wrong while a call is computed or an expert is loaded: docs/cuda.md has
// the same table with what the host and the request see of it.
func TestFaults(t *testing.T) {
	const kernel = "experts_in_p2_t8"
	fails := outcome{call: cuda.ErrLaunch, next: true}
	lost, hung := outcome{call: cuda.ErrLost, lost: true}, outcome{call: cuda.ErrLost, lost: true, slow: true}
	for _, tt := range []struct {
		name  string
		fault func(*fake.Faults) (end func())
		want  outcome
	}{
		{"launch refused", now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeInvalidValue, 1) }), fails},
		{"launch out of resources", now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeLaunchOutOfMemory, 1) }), fails},
		{"kernel fails", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeLaunchFailed) }), lost},
		{"illegal address", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeIllegalAddress) }), lost},
		{"memory error", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeECC) }), lost},
		{"device lost before", now(func(f *fake.Faults) { f.Lose(cuda.CodeDeviceUnavailable) }), lost},
		{"kernel hangs", func(f *fake.Faults) func() { return f.HoldKernel(kernel) }, hung},
		{"copy hangs", (*fake.Faults).HoldCopies, hung},
		{"no fault", now(func(*fake.Faults) {}), outcome{next: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, gpu := modeltest.Tiny(t), newGPU(t)
			d := openOn(t, gpu, m, 64)
			in := rowsFor(m, 6)
			warmed(t, d, in.Layer, m.Spec.Experts)
			want := computed(t, d, in, m)
			if tt.want.slow {
				d.health.patience = 20 * time.Millisecond
			}
			if end := tt.fault(gpu.Faults); end != nil {
				defer end()
			}
			out := make([]float32, len(want))
			scratch := &forward.ExpertScratch{}
			if err := d.Compute(in, out, scratch); !errors.Is(err, tt.want.call) {
				t.Fatalf("the call: %v, want %v", err, tt.want.call)
			}
			if err := d.Compute(in, out, scratch); (err == nil) != tt.want.next {
				t.Errorf("the next call: %v", err)
			} else if err == nil && out[0] != want[0] {
				t.Errorf("the next call gives %v, want %v", out[0], want[0])
			}
			if (d.Err() != nil) != tt.want.lost {
				t.Errorf("the host is told %v", d.Err())
			}
			select {
			case <-d.Failed():
			default:
				if tt.want.lost {
					t.Error("the host is not woken")
				}
			}
			for _, g := range in.Expert { // no call keeps its experts
				if st := d.State(forward.ExpertID{Layer: in.Layer, Expert: int(g)}); st.Tickets != 1 {
					t.Errorf("expert %d: %+v", g, st)
				}
			}
		})
	}
}

// now is a fault that needs no end.
func now(do func(*fake.Faults)) func(*fake.Faults) func() {
	return func(f *fake.Faults) func() { do(f); return nil }
}

// A slow copy delays its load and nothing else; a lost device fails its loads.
func TestLoadsUnderFaults(t *testing.T) {
	m, gpu := modeltest.Golden(t, "mixtral"), newGPU(t)
	d := openOn(t, gpu, m, 64)
	let := gpu.Faults.HoldCopies()
	ticket := d.Load(t.Context(), forward.ExpertID{}, 0)
	if ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond); ticket.Wait(ctx) == nil {
		t.Error("the expert is warm before it was copied")
		end()
	} else {
		end()
	}
	if st := d.State(forward.ExpertID{}); st.Phase != device.Loading {
		t.Errorf("%+v", st)
	}
	let()
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	gpu.Faults.Lose(cuda.CodeUnknown)
	err := d.Load(t.Context(), forward.ExpertID{Expert: 1}, 0).Wait(t.Context())
	var failed *device.FailedError
	if !errors.Is(err, cuda.ErrLost) || !errors.As(err, &failed) || d.Err() == nil {
		t.Fatalf("a load on a lost GPU: %v", err)
	}
}

// A weight that is not finite is found wherever it is, and the expert alone is not loaded.
func TestNumbers(t *testing.T) {
	const many = 2*16 + 5
	for at := range many {
		data := make([]byte, 2*many)
		for _, bits := range []byte{0x7f, 0xff} {
			data[2*at], data[2*at+1] = 0x80, bits
			if got := notFinite(data); got != at {
				t.Errorf("not a number at %d is found at %d", at, got)
			}
		}
		data[2*at], data[2*at+1] = 0x7f, 0x7f // the largest number
		if got := notFinite(data); got != -1 {
			t.Errorf("a number at %d is none", at)
		}
	}
	m := spoiled(t, model.Ref{Role: model.ExpertDown, Expert: 1})
	d := openOn(t, newGPU(t), m, 64)
	err := d.Load(t.Context(), forward.ExpertID{Layer: 0, Expert: 1}, 0).Wait(t.Context())
	var number *NumberError
	if !errors.As(err, &number) || number.Ref.Expert != 1 {
		t.Fatalf("%v", err)
	}
	if err := d.Load(t.Context(), forward.ExpertID{Layer: 0, Expert: 0}, 0).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spoiled is a checkpoint with a NaN in a tensor.
func spoiled(t *testing.T, in model.Ref) *model.Model {
	t.Helper()
	from := goldens.Dir("mixtral")
	clean := modeltest.Golden(t, "mixtral")
	weights, err := clean.Tensor(in)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "spoiled")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	spoilt := 0
	files, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(data), string(weights.Data))
		if at < 0 {
			continue
		}
		data[at+20], data[at+21] = 0xc0, 0x7f
		spoilt++
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if spoilt != 1 {
		t.Fatalf("the tensor is in %d of %v", spoilt, files)
	}
	return modeltest.Open(t, dir)
}
