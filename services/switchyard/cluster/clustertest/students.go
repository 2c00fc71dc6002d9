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
					h.Table = append(h.Table, groupOf(&h, l, g))
				}
			}
		}
		if gap {
			h.Table[len(h.Table)-1].Rows = 0
		}
		err = united.Write(f, &m.Spec, h, func(layer, group int) (united.Weights, error) {
			of := groupOf(&h, layer, group)
			return mean(m, layer, of.Experts)
		})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// groupOf has neighbours by way 2, and by others experts that lie apart. What handing their rows over
// costs is in no order.
func groupOf(h *united.Header, layer, group int) united.Group {
	g := united.Group{Layer: layer, Group: group, Rows: 1, Error: 0.5}
	for at := group * h.Way; at < min((group+1)*h.Way, h.Experts); at++ {
		e := at
		if h.Way > 2 {
			e = at / 2
			if at%2 == 1 {
				e = h.Experts - 1 - at/2
			}
			g.Of = append(g.Of, int32(e))
		}
		g.Experts = append(g.Experts, united.Cost{Expert: e, Rows: 1, Distance: float64(1 + (7*e+3*layer)%5), Norm: 6})
	}
	return g
}

// mean is the mean of experts' weights.
func mean(m *model.Model, layer int, of []united.Cost) (w united.Weights, err error) {
	var parts [3][]byte
	for k, role := range []model.Role{model.ExpertRoles.Gate, model.ExpertRoles.Up, model.ExpertRoles.Down} {
		var sum []float32
		for _, e := range of {
			one, err := m.Floats(model.Ref{Role: role, Layer: layer, Expert: e.Expert})
			if err != nil {
				return w, err
			}
			if sum == nil {
				sum = make([]float32, len(one))
			}
			for i, v := range one {
				sum[i] += v / float32(len(of))
			}
		}
		if parts[k], err = safetensors.Encode(sum, safetensors.BF16); err != nil {
			return w, err
		}
	}
	return united.Weights{Gate: parts[0], Up: parts[1], Down: parts[2]}, nil
}
