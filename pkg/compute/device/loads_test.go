package device_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// fresh is a copy of a golden model's folder.
func fresh(t *testing.T, family string) (*model.Model, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), family)
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir(family))); err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, dir
}

// warm loads an expert and gives it up.
func warm(t *testing.T, d device.Device, id forward.ExpertID) error {
	t.Helper()
	ticket := d.Load(t.Context(), id, device.Demanded)
	defer ticket.Release()
	return ticket.Wait(t.Context())
}

// row is what an expert computes of a row.
func row(t *testing.T, d device.Device, m *model.Model, e int) []float32 {
	t.Helper()
	in := forward.Routed{X: make([]float32, m.Spec.Hidden), Source: []uint32{0}, Expert: []uint32{uint32(e)}, Weight: []float32{1}}
	for i := range in.X {
		in.X[i] = float32(i%7) - 3
	}
	out := make([]float32, m.Spec.Hidden)
	if err := d.Compute(in, out, &forward.ExpertScratch{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// An expert that is packed into the memory of another one has the bits of one that is not, in each precision.
func TestMemoryAgain(t *testing.T) {
	p := pool.New(2)
	t.Cleanup(p.Close)
	for family, biases := range map[string]int64{"mixtral": 0, "qwen2_moe": 0, "gpt_oss-mxfp4": 4 * (64 + 64 + 64)} { // bytes, on Go's heap
		for _, precision := range []model.Precision{model.AsStored, model.Q8, model.Q4, model.W8A8, model.W4A8, model.W16A16} {
			m, _ := fresh(t, family)
			m.In(precision)
			if forward.CheckPrecision(m) != nil {
				continue
			}
			t.Run(family+"/"+string(precision), func(t *testing.T) {
				all, one := device.NewCPU(m, p, device.Settings{}), (*device.CPU)(nil)
				defer all.Close()
				size, err := all.Size(forward.ExpertID{})
				if err != nil {
					t.Fatal(err)
				}
				one = device.NewCPU(m, p, device.Settings{Budget: size})
				defer one.Close()
				var space *cpu.Space
				for i := range 2 * m.Spec.Experts {
					id := forward.ExpertID{Expert: i % m.Spec.Experts}
					for _, d := range []device.Device{all, one} {
						if err := warm(t, d, id); err != nil {
							t.Fatal(err)
						}
					}
					if got, want := row(t, one, m, id.Expert), row(t, all, m, id.Expert); !slices.Equal(got, want) {
						t.Fatalf("%v differs", id)
					}
					now := one.Borrow(id).Space()
					one.GiveBack(id)
					if now == nil || i > 0 && space != now {
						t.Fatalf("%v takes other memory than the one before", id)
					}
					if now.Bytes() != size || now.Left() > biases {
						t.Errorf("%d of %v's %d bytes are elsewhere", now.Left(), id, size)
					}
					space = now
				}
			})
		}
	}
}

// A file that is cut fails loads by its name, and their memory is there for later ones.
func TestCutFile(t *testing.T) {
	p := pool.New(2)
	t.Cleanup(p.Close)
	m, dir := fresh(t, "mixtral")
	size, err := forward.ExpertBytes(m, forward.ExpertID{})
	if err != nil {
		t.Fatal(err)
	}
	d := device.NewCPU(m, p, device.Settings{Budget: size})
	defer d.Close()
	if err := warm(t, d, forward.ExpertID{}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	whole := map[string][]byte{}
	for _, file := range files {
		if whole[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := warm(t, d, forward.ExpertID{Expert: 1}); err == nil || !strings.Contains(err.Error(), "cannot be read any more") || !strings.Contains(err.Error(), dir) {
			t.Fatalf("error %v", err)
		}
	}
	if used, spare := device.Spaces(d); used != 0 || spare != size {
		t.Errorf("%d bytes are in use by no expert, %d spare", used, spare)
	}
	for file, data := range whole {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := warm(t, d, forward.ExpertID{Expert: 1}); err != nil {
		t.Errorf("the file is whole again: %v", err)
	}
}

// What something computes with is not packed into: a load that has only its memory is refused until it is given back.
func TestBorrowedMemory(t *testing.T) {
	p := pool.New(2)
	t.Cleanup(p.Close)
	m, _ := fresh(t, "mixtral")
	size, err := forward.ExpertBytes(m, forward.ExpertID{})
	if err != nil {
		t.Fatal(err)
	}
	d, first, second := device.NewCPU(m, p, device.Settings{Budget: size}), forward.ExpertID{}, forward.ExpertID{Expert: 1}
	defer d.Close()
	if err := warm(t, d, first); err != nil {
		t.Fatal(err)
	}
	want, space := row(t, d, m, first.Expert), d.Borrow(first).Space()
	var refused *device.RefusedError
	if err := warm(t, d, second); !errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	if used, spare := device.Spaces(d); used != size || spare != 0 {
		t.Errorf("%d bytes in use, %d spare", used, spare)
	}
	if got := row(t, d, m, first.Expert); !slices.Equal(got, want) {
		t.Error("the expert has changed while something computes with it")
	}
	d.GiveBack(first)
	if err := warm(t, d, second); err != nil || d.Borrow(second).Space() != space {
		t.Errorf("its memory does not serve the next one: %v", err)
	}
}

// besides are experts beside that are the first one of a layer again.
type besides struct{ m *model.Model }

func (b besides) Units() int { return 4 }

func (b besides) Size(id forward.ExpertID) (int64, error) {
	return forward.ExpertBytes(b.m, forward.ExpertID{Layer: id.Layer})
}

func (b besides) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if id.Expert == b.m.Spec.Experts {
		return nil, errors.New("it cannot be read")
	}
	return forward.LoadExpertBy(ctx, cpu.Packer{}, b.m, forward.ExpertID{Layer: id.Layer})
}

// Experts, those beside too, and spare memory stay within the budget together, and spare memory goes first.
func TestSpareWithinBudget(t *testing.T) {
	p := pool.New(2)
	t.Cleanup(p.Close)
	m, _ := fresh(t, "mixtral")
	size, err := forward.ExpertBytes(m, forward.ExpertID{})
	if err != nil {
		t.Fatal(err)
	}
	const fit = 3
	d := device.NewCPU(m, p, device.Settings{Budget: fit * size, Beside: besides{m}})
	defer d.Close()
	for e := range fit {
		if err := warm(t, d, forward.ExpertID{Expert: e}); err != nil {
			t.Fatal(err)
		}
	}
	for e := range fit {
		if err := d.Evict(forward.ExpertID{Expert: e}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(fit + 1) {
		if used, spare := device.Spaces(d); used != n*size || spare != (fit-n)*size {
			t.Errorf("%d beside of %d bytes: %d are in use, %d spare", n, size, used, spare)
		}
		if n == fit {
			break
		}
		if err := warm(t, d, forward.ExpertID{Expert: m.Spec.Experts + 1 + int(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := warm(t, d, forward.ExpertID{Expert: m.Spec.Experts}); err == nil {
		t.Fatal("one that cannot be read is there")
	}
	if used, spare := device.Spaces(d); used != d.Memory().Used || spare != 0 {
		t.Errorf("a load failed: %d bytes are in use, %d spare, the store counts %d", used, spare, d.Memory().Used)
	}
}
