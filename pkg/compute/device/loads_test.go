package device_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	for _, family := range []string{"mixtral", "qwen2_moe", "gpt_oss-mxfp4"} {
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
				var space any
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
					if i > 0 && space != any(now) {
						t.Errorf("%v takes other memory than the one before", id)
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
	for file, data := range whole {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := warm(t, d, forward.ExpertID{Expert: 1}); err != nil {
		t.Errorf("the file is whole again: %v", err)
	}
}
