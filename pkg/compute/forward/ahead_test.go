package forward

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// The system is told before of matrices whose panels are too large to be brought near, as Mixtral's down in bf16, and of all where nothing is.
func TestAhead(t *testing.T) {
	in, down := []model.Ref{{Role: model.ExpertGate}, {Role: model.ExpertUp}}, model.Ref{Role: model.ExpertDown}
	all := append(slices.Clone(in), down)
	for name, tt := range map[string]struct {
		in, down layout
		near     bool
		want     []model.Ref
	}{
		"Mixtral-8x7B":           {layout{k: 4096, format: cpu.BF16}, layout{k: 14336, format: cpu.BF16}, true, all[2:]},
		"Mixtral-8x7B in w16":    {layout{k: 4096, format: cpu.W16A16}, layout{k: 14336, format: cpu.W16A16}, true, all[2:]},
		"its copy in q8":         {layout{k: 4096, format: cpu.Q8, filed: true}, layout{k: 14336, format: cpu.Q8, filed: true}, true, nil},
		"wide inputs":            {layout{k: 8224, format: cpu.BF16}, layout{k: 8192, format: cpu.BF16}, true, in},
		"wider ones in q8":       {layout{k: 16384, format: cpu.Q8, filed: true}, layout{k: 16416, format: cpu.Q8, filed: true}, true, all[2:]},
		"in q4":                  {layout{k: 16416, format: cpu.W4A8, filed: true}, layout{k: 32800, format: cpu.Q4, filed: true}, true, all[2:]},
		"nothing brought near":   {layout{k: 64, format: cpu.BF16}, layout{k: 64, format: cpu.BF16}, false, all},
		"all of it brought near": {layout{k: 64, format: cpu.BF16}, layout{k: 64, format: cpu.BF16}, true, nil},
	} {
		if got := (ffnRefs{in: in, down: down}).ahead(ffnLayouts{tt.in, tt.down}, tt.near); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
