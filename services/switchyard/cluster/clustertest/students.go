package clustertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/united"
)

// Students writes united experts of some ways into a folder: each is the mean of its group, quickly
// made and of little use. With a gap, the last group of the last layer has none.
func Students(t testing.TB, m *model.Model, gap bool, ways ...int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, way := range ways {
		f, err := os.Create(filepath.Join(dir, united.Name(way)))
		if err != nil {
			t.Fatal(err)
		}
		h := united.Header{Model: m.Hash, Way: way, Experts: m.Spec.Experts, Loss: "mean", Data: "none", Note: "of a test"}
		for l, layer := range m.Spec.Layer {
			for g := range h.Groups() {
				if layer.MoE {
					h.Table = append(h.Table, united.Group{Layer: l, Group: g, Rows: 1, Error: 0.5})
				}
			}
		}
		if gap {
			h.Table[len(h.Table)-1].Rows = 0
		}
		err = united.Write(f, &m.Spec, h, func(layer, group int) (united.Weights, error) { return mean(m, layer, group, way) })
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mean is the mean of a group's weights.
func mean(m *model.Model, layer, group, way int) (w united.Weights, err error) {
	var parts [3][]byte
	for k, role := range []model.Role{model.ExpertRoles.Gate, model.ExpertRoles.Up, model.ExpertRoles.Down} {
		var sum []float32
		first, end := group*way, min((group+1)*way, m.Spec.Experts)
		for e := first; e < end; e++ {
			one, err := m.Floats(model.Ref{Role: role, Layer: layer, Expert: e})
			if err != nil {
				return w, err
			}
			if sum == nil {
				sum = make([]float32, len(one))
			}
			for i, v := range one {
				sum[i] += v / float32(end-first)
			}
		}
		if parts[k], err = safetensors.Encode(sum, safetensors.BF16); err != nil {
			return w, err
		}
	}
	return united.Weights{Gate: parts[0], Up: parts[1], Down: parts[2]}, nil
}
