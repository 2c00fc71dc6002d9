package rented

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Of returns the shape of a model that is served: the table's where its name and its layers and
// experts are there, else one whose sizes of memory are scaled to its bytes, as the
// demo model's are. Functions have from a layer's experts to ten times as much, and the host
// beside attention up to two and a half times all of them, in steps of half of the first.
func Of(name string, m serverless.Model, element float64) Shape {
	if at := slices.Index(Names(), name); at >= 0 {
		if s := shapes[at]; s.Layers == m.Layers && s.Experts == m.Experts && s.TopK == m.TopK {
			return s
		}
	}
	first := math.Ceil(float64(m.Experts)*m.Expert/MB) + 1
	step := math.Max(1, math.Floor(first/2))
	return Shape{
		Name: name, Model: m, Element: element, Threads: 1, Replicas: 4, Prompt: [2]int{80, 140}, Output: 199,
		Functions: [3]float64{first, 10 * first, step}, Main: [3]float64{first, math.Max(first, math.Ceil(2.5*m.All()/MB)), step},
	}
}
