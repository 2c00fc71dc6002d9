package distill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// progress is how far the students of a way have learnt from the whole model.
type progress struct {
	Step  int     `json:"step"`
	Least float64 `json:"least"` // divergence on the validation rows
}

func (p *parts) course(way int) string {
	return filepath.Join(p.dir, fmt.Sprintf("way-%d-through", way))
}

// keep writes all that a course goes on with.
func (c *course) keep(step int, least float64) error {
	table, err := json.Marshal(progress{step, least})
	if err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for i, s := range c.flat {
		in, _ := s.In.State()
		down, _ := s.Down.State()
		for name, w := range map[string][]float32{"in": in, "down": down, "best": c.best[i]} {
			data, err := safetensors.Encode(w, safetensors.F32)
			if err != nil {
				return err
			}
			tensors = append(tensors, safetensors.Tensor{Name: fmt.Sprint(name, i), DType: safetensors.F32, Shape: []int{len(w)}, Data: data})
		}
	}
	var body bytes.Buffer
	if err := safetensors.Write(&body, tensors, map[string]string{"progress": string(table)}); err != nil {
		return err
	}
	if err := replace(c.kept.course(c.way), body.Bytes()); err != nil {
		return fmt.Errorf("keeping what is learnt from the whole model: %w", err)
	}
	return nil
}

// resume takes what keep wrote, if it did, and says which step is next.
func (c *course) resume() (step int, least float64, err error) {
	path := c.kept.course(c.way)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, math.Inf(1), nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("going on with an earlier distillation: %w", err)
	}
	var p progress
	f, err := safetensors.Parse(data)
	if err == nil {
		err = json.Unmarshal([]byte(f.Metadata()["progress"]), &p)
	}
	c.best = c.best[:0]
	for i, s := range c.flat {
		var all [3][]float32
		for k, name := range []string{"in", "down", "best"} {
			if err == nil {
				all[k], err = floats(f, fmt.Sprint(name, i))
			}
		}
		if err == nil && (len(all[0]) != 3*len(s.In.W) || len(all[1]) != 3*len(s.Down.W) || len(all[2]) != len(s.In.W)+len(s.Down.W)) {
			err = errors.New("its students have other sizes")
		}
		if err != nil {
			return 0, 0, fmt.Errorf("going on with %s: %w; remove it to have way %d learn from the whole model anew", path, err, c.way)
		}
		s.In.Restore(all[0], p.Step)
		s.Down.Restore(all[1], p.Step)
		s.Pack()
		c.best = append(c.best, slices.Clone(all[2]))
	}
	return p.Step, p.Least, err
}

func floats(f *safetensors.File, name string) ([]float32, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("it has no tensor %q", name)
	}
	return t.Floats()
}

func (p *parts) forget(way int) error {
	if err := os.Remove(p.course(way)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what was kept on the way: %w", err)
	}
	return nil
}
