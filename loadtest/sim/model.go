package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Model is a model's shape with what its experts take on a device.
type Model struct {
	Name string
	routing.Shape
	Profile *profiles.Profile
}

// known are the models of the paper's evaluation (MoEless, table 1), and a much
// larger one, of whose 61 layers 58 have experts. Their numbers are the profile's.
var known = []struct {
	name, profile string
	shape         routing.Shape
}{
	{"mixtral-8x7b", "a6000-mixtral", routing.Shape{Layers: 32, Experts: 8, TopK: 2}},
	{"phi-3.5-moe", "a6000-phi-3.5-moe", routing.Shape{Layers: 32, Experts: 16, TopK: 2}},
	{"llama-4-scout", "a6000-llama-4-scout", routing.Shape{Layers: 48, Experts: 16, TopK: 1}},
	{"deepseek-v3", "a6000-deepseek-v3", routing.Shape{Layers: 58, Experts: 256, TopK: 8}},
}

// Names are the models that Open knows.
func Names() (names []string) {
	for _, k := range known {
		names = append(names, k.name)
	}
	return names
}

// Open is the model of this name.
func Open(name string) (Model, error) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return Model{}, fmt.Errorf("there is no shape %q; there are %s", name, strings.Join(Names(), ", "))
	}
	p, err := profiles.Open(known[i].profile)
	if err != nil {
		return Model{}, fmt.Errorf("shape %s: %w", name, err)
	}
	return Model{Name: name, Shape: known[i].shape, Profile: p}, nil
}
