package cuda

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// Matrices that are made on the GPU are those that are copied there, whatever their sizes, in
// rows and in tiles, with zeros where those have them.
func TestRandomMatrices(t *testing.T) { randomMatrices(t, newGPU(t), 60) }

func randomMatrices(t *testing.T, driver cuda.Driver, many int) {
	t.Helper()
	w, to := randomWay(t, driver)
	random := rand.New(rand.NewPCG(5, 6))
	for range many {
		p := matrix{k: 1 + random.IntN(200), format: []format{bf16, tiled}[random.IntN(2)]}
		var all []model.Random
		n := 1 + random.IntN(150)
		for range 1 + random.IntN(2) {
			if p.format == bf16 { // as of queries, keys and values
				n = 1 + random.IntN(150)
			}
			p.n, p.refs = p.n+n, append(p.refs, model.Ref{})
			all = append(all, model.Random{Stream: random.Uint64(), Deviation: 0.5, Rows: n, Columns: p.k})
		}
		if err := w.over(t.Context(), func(w *way) { w.to = to; w.generate(p, all) }); err != nil {
			t.Fatal(err)
		}
		if w.to != to+cuda.Ptr(p.bytes()) {
			t.Fatalf("%d bytes are written of %d", w.to-to, p.bytes())
		}
		made := bytes.Clone(onGPU(t, w, to, p.bytes()))
		if err := w.over(t.Context(), func(w *way) { w.to = to; copyRandom(w, p, all) }); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, p, made, onGPU(t, w, to, p.bytes()))
	}
}

// randomWay makes random matrices of deviation 0.5, at an address with room for a MiB.
func randomWay(t *testing.T, driver cuda.Driver) (w *way, to cuda.Ptr) {
	t.Helper()
	module, err := images.Open(driver)
	if err != nil {
		t.Fatal(err)
	}
	r := &random{numbers: map[float64]cuda.Ptr{}}
	var errs [4]error
	r.kernel, errs[0] = module.Kernel("random_weights", 0)
	r.numbers[0.5], errs[1] = driver.Alloc(numbersBytes)
	to, errs[2] = driver.Alloc(1 << 20)
	w, errs[3] = newWay(driver, 1<<20, newHealth(DefaultPatience))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close(false) })
	w.random, w.to = r, r.numbers[0.5]
	if err := w.over(t.Context(), func(w *way) { w.write(numberBytes(model.Random{Deviation: 0.5}.Numbers())) }); err != nil {
		t.Fatal(err)
	}
	return w, to
}

// copyRandom makes the same on the CPU.
func copyRandom(w *way, p matrix, all []model.Random) {
	var from []rows
	for _, of := range all {
		data := make([]byte, 2*of.Rows*of.Columns)
		of.Fill(data)
		from = append(from, rows{data, of.Rows, 2 * of.Columns})
	}
	if p.format == tiled {
		eachBand(from, p.rows(), 2*padded(p.k), w.write)
		return
	}
	for _, of := range from {
		w.rows(of.data, of.bytes, 2*padded(p.k))
	}
}

// A matrix whose numbers are not on the GPU is copied, not made of what lies at address 0.
func TestRandomElsewhere(t *testing.T) {
	m := modeltest.Tiny(t)
	d := openOn(t, newGPU(t), m, 8)
	p, err := expertOf(m, forward.ExpertID{}, cuda.Mma)
	if err != nil {
		t.Fatal(err)
	}
	r := d.loader.all[0].random
	if n := len(r.of(m, p.in)); n != 2 {
		t.Errorf("%d tensors are made", n)
	}
	down, _ := m.Random(p.down.refs[0])
	delete(r.numbers, down.Deviation)
	if r.of(m, p.in) == nil || r.of(m, p.down) != nil {
		t.Errorf("numbers of %v are there", r.numbers)
	}
	if all := (*random)(nil).of(m, p.in); all != nil {
		t.Errorf("made of nothing: %v", all)
	}
}

// onGPU is what lies at an address behind all that w was given.
func onGPU(t *testing.T, w *way, at cuda.Ptr, n int64) []byte {
	t.Helper()
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	out := w.buffers[w.now]
	if err := errors.Join(w.stream.CopyOut(out.data[:n], at), out.copied.record(w.stream), out.copied.wait()); err != nil {
		t.Fatal(err)
	}
	return out.data[:n]
}

func sameBytes(t *testing.T, what any, got, want []byte) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%+v: byte %d is %x, not %x", what, i, got[i], want[i])
		}
	}
}

// A device makes the experts of a random model, and copies no byte of them.
func TestRandomExperts(t *testing.T) {
	for _, kernels := range []cuda.Kernels{cuda.Mma, cuda.Wgmma} {
		t.Run(string(kernels), func(t *testing.T) {
			gpu := newGPU(t)
			randomAsCopied(t, gpu, kernels)
			if got, want := gpu.Copied(), int64(2*numbersBytes)+allExperts(t, kernels); got != want {
				t.Errorf("%d bytes were copied, want %d: two tables, and once the experts", got, want)
			}
		})
	}
}

// allExperts is the bytes of all experts of the tiny model.
func allExperts(t *testing.T, k cuda.Kernels) (n int64) {
	t.Helper()
	m := modeltest.Tiny(t)
	for l := range m.Spec.Layers {
		p, err := expertOf(m, forward.ExpertID{Layer: l}, k)
		if err != nil {
			t.Fatal(err)
		}
		n += int64(m.Spec.Experts) * (p.down.at + p.down.bytes())
	}
	return n
}

// randomAsCopied loads all experts of a random model, once made on the GPU and once copied there.
func randomAsCopied(t *testing.T, driver cuda.Driver, k cuda.Kernels) {
	t.Helper()
	m := modeltest.Tiny(t)
	d, err := open(m, driver, images, Settings{Memory: 4 << 20, Parts: 1, Kernels: k}, tuning{rows: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	made := experts(t, d, m, k)
	for _, w := range d.loader.all {
		w.random = nil
	}
	for id, want := range experts(t, d, m, k) {
		sameBytes(t, id, made[id], want)
	}
}

// experts are what lies in their slots.
func experts(t *testing.T, d *Device, m *model.Model, k cuda.Kernels) map[forward.ExpertID][]byte {
	t.Helper()
	all := map[forward.ExpertID][]byte{}
	for i := range m.Spec.Layers * m.Spec.Experts {
		id := forward.ExpertID{Layer: i / m.Spec.Experts, Expert: i % m.Spec.Experts}
		p, err := expertOf(m, id, k)
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.loader.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w := <-d.loader.ways
		all[id] = bytes.Clone(onGPU(t, w, e.at, p.bytes))
		d.loader.ways <- w
		d.loader.Free(e)
	}
	return all
}

// Of a random model attention's matrices are made, too, and all else is copied.
func TestRandomAttention(t *testing.T) { randomAttention(t, newAttentionGPU(t)) }

func randomAttention(t *testing.T, driver cuda.Driver) {
	t.Helper()
	m, h := modeltest.Tiny(t), newHealth(DefaultPatience)
	k, err := openBackboneKernels(driver, images, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	arena, err := cuda.NewArena(driver, 4<<20, "a test")
	if err != nil {
		t.Fatal(err)
	}
	sized := placing{m: m}
	sized.backbone()
	r, err := newRandom(t.Context(), m, sized.matrices(), k.kernels, arena, driver, h)
	if err != nil || len(r.numbers) < 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	var all [2][]byte
	for i, of := range []*random{r, nil} {
		base, err := arena.Take(sized.end(), "attention")
		if err != nil {
			t.Fatal(err)
		}
		p := placing{m: m, base: base, table: base + cuda.Ptr(sized.bytes)}
		p.backbone()
		err = overWay(t.Context(), driver, 1<<20, h, of, func(w *way) {
			p.write(w, m)
			w.send()
			all[i] = bytes.Clone(onGPU(t, w, base, p.bytes)) // behind it are addresses
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sameBytes(t, "attention", all[0], all[1])
}

// hooked is a driver of which launches are looked at before they begin.
type hooked struct {
	*fake.Device
	launch func() error
}

type hookedStream struct {
	cuda.Stream
	d *hooked
}

func (d *hooked) NewStream() (cuda.Stream, error) {
	s, err := d.Device.NewStream()
	return hookedStream{s, d}, err
}

func (s hookedStream) Launch(l *cuda.Launch) error {
	if err := s.d.launch(); err != nil {
		return err
	}
	return s.Stream.Launch(l)
}

// A load that is cancelled between two launches, or whose second launch is refused, stops there.
// It gives its slot back when the first one is over, and not before.
func TestRandomStopsBetweenTensors(t *testing.T) {
	refused := &cuda.Error{Call: "cuLaunchKernel", Code: cuda.CodeLaunchOutOfMemory}
	for _, tt := range []struct {
		name string
		stop func(cancel func(), launch int) error
		want error
		made int
	}{
		{"cancelled", func(cancel func(), _ int) error { cancel(); return nil }, context.Canceled, 1},
		{"refused", func(_ func(), launch int) error {
			if launch == 2 {
				return refused
			}
			return nil
		}, cuda.ErrLaunch, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu, launches := newGPU(t), 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d, err := open(modeltest.Tiny(t), &hooked{gpu, func() error {
				launches++
				return tt.stop(cancel, launches)
			}}, images, Settings{Memory: small, Parts: 2}, tuning{rows: 8})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			let := gpu.Faults.HoldKernel("random_weights")
			defer let()
			loaded := make(chan error, 1)
			go func() {
				_, err := d.loader.Load(ctx, forward.ExpertID{})
				loaded <- err
			}()
			testkit.Eventually(t, "a launch is under way", func() bool { return gpu.Faults.Waiting() == 1 })
			for range 10 {
				if free := taken(d.loader.slots); free != d.loader.slots.Count()-1 {
					t.Fatalf("the slot is free under its launch: %d are free", free)
				}
				time.Sleep(time.Millisecond)
			}
			let()
			if err := <-loaded; !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if free := taken(d.loader.slots); free != d.loader.slots.Count() || launches != tt.made || d.Err() != nil {
				t.Errorf("%d slots are free after %d launches; the GPU: %v", free, launches, d.Err())
			}
		})
	}
}

// What goes wrong while experts are made is what goes wrong while they are copied.
func TestRandomFaults(t *testing.T) {
	const kernel = "random_weights"
	fails := outcome{call: cuda.ErrLaunch, next: true}
	lost, hung := outcome{call: cuda.ErrLost, lost: true}, outcome{call: cuda.ErrLost, lost: true, slow: true}
	for _, tt := range []struct {
		name  string
		fault func(*fake.Faults) (end func())
		want  outcome
	}{
		{"launch refused", now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeInvalidValue, 1) }), fails},
		{"kernel fails", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeLaunchFailed) }), lost},
		{"memory error", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeECC) }), lost},
		{"device lost before", now(func(f *fake.Faults) { f.Lose(cuda.CodeDeviceUnavailable) }), lost},
		{"kernel hangs", func(f *fake.Faults) func() { return f.HoldKernel(kernel) }, hung},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := newGPU(t)
			d := openOn(t, gpu, modeltest.Tiny(t), 8)
			if tt.want.slow {
				d.health.patience = 20 * time.Millisecond
			}
			if end := tt.fault(gpu.Faults); end != nil {
				defer end()
			}
			err := d.Load(t.Context(), forward.ExpertID{}, 0).Wait(t.Context())
			var failed *device.FailedError
			if !errors.Is(err, tt.want.call) || !errors.As(err, &failed) || (d.Err() != nil) != tt.want.lost {
				t.Errorf("the load: %v; the GPU: %v", err, d.Err())
			}
			if err := d.Load(t.Context(), forward.ExpertID{}, 0).Wait(t.Context()); (err == nil) != tt.want.next {
				t.Errorf("the next load: %v", err)
			}
		})
	}
}
