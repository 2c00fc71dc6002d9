package predictor

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

func TestCheck(t *testing.T) {
	two, one := &model.Model{Name: "m"}, &model.Model{Name: "m"}
	two.Spec.Layer, one.Spec.Layer = make([]model.LayerSpec, 2), make([]model.LayerSpec, 1)
	for _, tc := range []struct {
		name    string
		of      *model.Model
		config  Config
		problem string // empty: none
	}{
		{"next layer", two, Config{Distance: 1}, ""},
		{"no distance", two, Config{}, "--distance is 0"},
		{"far", two, Config{Distance: 2}, "--distance is 2"},
		{"one layer", one, Config{Distance: 1}, ""},
		{"rate", two, Config{Distance: 1, MaxRate: -1}, "--max-rate is -1"},
		{"no such file", two, Config{Distance: 1, Weights: "/nowhere"}, "--weights"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.config.Check(tc.of)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%v, want %q", err, tc.problem)
			}
		})
	}
}
