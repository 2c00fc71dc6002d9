package rented

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Shape is a model with the memory sizes that are rented for it.
type Shape struct {
	Name string
	serverless.Model
	Element float64 // bytes of a parameter
	// Threads are the processors that a row of an expert uses at most. They are assumed: by figure
	// 6 more than 1 or 2 GB of memory, of which each has a processor, hardly make a token quicker.
	Threads float64
	// Sizes of functions and of the main model's host: first, last and step, in MB.
	Functions, Main [3]float64
	Replicas        int // z^max, assumed: the paper has no number
	Prompt          [2]int
	Output          int // tokens after the first
	Context         int // the most tokens of a request
}

// MB is a megabyte of memory sizes: they are whole MiB, as a platform's GB is a GiB.
const MB = 1 << 20

// shapes are the paper's models (section V-A), the demo model, and one of which all plans can be
// tried. Prompts are the first 500 characters of texts, which are 80 to 140 tokens; output is 200
// tokens.
var shapes = []Shape{
	{ // GPT-2's layers with 8 experts each: 124.4 M parameters, 56.6 M of them in its FFNs; in bf16, as table I
		Name: "gpt2_moe", Element: 2, Threads: 1,
		Model:     serverless.Model{Layers: 12, Experts: 8, TopK: 2, Expert: 2 * 768 * 3072 * 2, Fixed: (124.4e6 - 56.6e6) * 2, Token: 768 * 2, Cache: 12 * 2 * 768 * 2},
		Functions: [3]float64{200, 2000, 100}, Main: [3]float64{200, 5000, 100}, Replicas: 4, Prompt: [2]int{80, 140}, Output: 199, Context: 1024,
	},
	{ // config.json: 26 layers of 64 experts of 3 matrices of 2048 by 1408; 0.9 B other parameters; keys and values of 576 in 27 layers
		Name: "deepseek-v2-lite", Element: 2, Threads: 2,
		Model:     serverless.Model{Layers: 26, Experts: 64, TopK: 6, Expert: 3 * 2048 * 1408 * 2, Fixed: 0.9e9 * 2, Token: 2048 * 2, Cache: 27 * 576 * 2},
		Functions: [3]float64{1000, 5000, 100}, Main: [3]float64{1000, 40000, 100}, Replicas: 4, Prompt: [2]int{80, 140}, Output: 199, Context: 163840,
	},
	{ // models/demo in bf16: 3 matrices of 256 by 128; sizes scaled to its bytes
		Name: "demo", Element: 2, Threads: 1,
		Model:     serverless.Model{Layers: 8, Experts: 16, TopK: 2, Expert: 3 * 256 * 128 * 2, Fixed: 10e6, Token: 256 * 2, Cache: 8 * 2 * 128 * 2},
		Functions: [3]float64{4, 40, 2}, Main: [3]float64{4, 64, 2}, Replicas: 4, Prompt: [2]int{80, 140}, Output: 199, Context: 512,
	},
	{ // layers of GPT2-moe, few enough to try all plans
		Name: "small", Element: 2, Threads: 1,
		Model:     serverless.Model{Layers: 2, Experts: 3, TopK: 2, Expert: 2 * 768 * 3072 * 2, Fixed: 2 * 5.65e6 * 2, Token: 768 * 2, Cache: 2 * 2 * 768 * 2},
		Functions: [3]float64{50, 450, 200}, Main: [3]float64{50, 450, 100}, Replicas: 2, Prompt: [2]int{80, 140}, Output: 199, Context: 1024,
	},
}

// Names returns those of all shapes.
func Names() (names []string) {
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	return names
}

// Open returns the shape of a name.
func Open(name string) (Shape, error) {
	at := slices.Index(Names(), name)
	if at < 0 {
		return Shape{}, fmt.Errorf("there is no shape %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return shapes[at], nil
}

// Conditions are what is rented, and for how much.
type Conditions struct {
	Platform cost.Platform
	Ratio    float64 // the price of the GPU's memory to that of hosts and functions: c^g/c^c
	Threads  float64 // instead of the shape's; 0 leaves it
	Any      bool    // a row uses all processors
	Printed  bool    // equations as printed
	Fused    bool    // the GPU's kernels are as quick as its data sheet lets them
	// Functions and Main are bytes of memory sizes instead of the shape's; nil leaves those.
	Functions, Main []float64
	Replicas        *int         // z^max instead of the shape's
	Payload         *float64     // U instead of the platform's
	Speeds          *cost.Speeds // of an expert's rows instead of the platform's processors
}

// a100 is an A100 with 80 GB: 2.039 TB/s and 312 TFLOP/s of bf16 (NVIDIA's data sheet), at the
// shares that were measured of an H200 (pkg/policy/cost). In an engine that computes expert by
// expert, an access and what a layer has beside its experts take what BrownoutServe's authors
// measured on A100 (figure 1: 94 % of 0.24 s are 24·60 accesses). In a fused one they take
// 20 µs a call and layer, as on that H200.
var a100 = cost.Roofline{Bandwidth: 0.89 * 2.039e12, Rate: 0.68 * 312e12, Overhead: 0.24 * 0.94 / (24 * 60)}

const (
	a100Layer  = 0.24 * 0.06 / 24
	fusedCall  = 20e-6
	fusedLayer = 40e-6 // beside the experts' call, assumed
)

// System returns the shape on what is rented. Rows go over PCIe 4.0 to the host at 25 GB/s, and over
// 10 Gbit/s to functions; both are assumed.
func (s Shape) System(c Conditions) (*serverless.System, error) {
	y := &serverless.System{
		Model: s.Model, Functions: c.Platform, Main: sizes(s.Main), GPU: a100, GPULayer: a100Layer, GPUPrice: c.Ratio * c.Platform.Memory,
		Switch: cost.Link{Latency: 10e-6, Bandwidth: 25e9}, Network: 1.25e9, Replicas: s.Replicas, Printed: c.Printed,
	}
	y.GPU.ElementBytes, y.Functions.CPU.ElementBytes = s.Element, s.Element
	y.Functions.Sizes, y.Functions.Threads = sizes(s.Functions), s.Threads
	if c.Threads > 0 {
		y.Functions.Threads = c.Threads
	}
	if c.Any {
		y.Functions.Threads = 0
	}
	if c.Fused {
		y.GPU.Overhead, y.GPULayer = fusedCall/float64(s.TopK), fusedLayer
	}
	c.changes(y)
	if !(c.Ratio > 0) {
		return nil, fmt.Errorf("the GPU's memory costs %v times that of hosts; it must be above 0", c.Ratio)
	}
	return y, y.Check()
}

// changes puts what is asked for in the place of the shape's and the platform's.
func (c *Conditions) changes(y *serverless.System) {
	if c.Functions != nil {
		y.Functions.Sizes = c.Functions
	}
	if c.Main != nil {
		y.Main = c.Main
	}
	if c.Replicas != nil {
		y.Replicas = *c.Replicas
	}
	if c.Payload != nil {
		y.Functions.Payload = *c.Payload
	}
	y.Functions.Speeds = c.Speeds
}

func sizes(of [3]float64) (all []float64) {
	for m := of[0]; m <= of[1]; m += of[2] {
		all = append(all, m*MB)
	}
	return all
}
