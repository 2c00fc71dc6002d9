package batched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// Shape is a model whose experts are deployed.
type Shape struct {
	Name                  string
	Layers, Experts, TopK int
	Hidden, Inner         int // columns of a row, and of an expert's inner layer
	Matrices              int // of an expert: 2, or 3 with a gate
	Vocab                 int // of what comes behind the last layer
}

// element are the bytes of a parameter and of a value of a row: float32, as torch computes on
// processors.
const element = 4

// shapes are the paper's models (section V-A), upcycled of BERT, GPT-2 and BERT2BERT; the demo model;
// and one of DeepSeek-V3's numbers of layers and experts for planning alone.
var shapes = []Shape{
	{"bert_moe-4", 12, 4, 1, 768, 3072, 2, 30522},
	{"bert_moe-8", 12, 8, 1, 768, 3072, 2, 30522},
	{"bert_moe-16", 12, 16, 1, 768, 3072, 2, 30522},
	{"gpt2_moe-4", 12, 4, 1, 768, 3072, 2, 50257},
	{"bert2bert_moe-4", 24, 4, 1, 768, 3072, 2, 30522},
	{"demo", 8, 16, 2, 256, 128, 3, 4096},
	{"wide", 61, 256, 8, 768, 512, 3, 4096},
	{"small", 2, 3, 1, 768, 3072, 2, 30522}, // for tests
}

// Names returns those of all shapes.
func Names() (names []string) {
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	return names
}

// Open returns the shape of a name, which may have the number of a row's experts behind it: bert_moe-4:2.
func Open(name string) (Shape, error) {
	base, k, given := strings.Cut(name, ":")
	at := slices.Index(Names(), base)
	if at < 0 {
		return Shape{}, fmt.Errorf("there is no shape %q; there are %s", base, strings.Join(Names(), ", "))
	}
	s := shapes[at]
	s.Name = name
	if given {
		var err error
		if s.TopK, err = strconv.Atoi(k); err != nil || s.TopK < 1 || s.TopK > s.Experts {
			return Shape{}, fmt.Errorf("shape %q has %q experts a row; it must be 1 to %d", base, k, s.Experts)
		}
	}
	return s, nil
}

// Expert returns the bytes of an expert.
func (s Shape) Expert() float64 { return float64(s.Matrices*s.Hidden*s.Inner) * element }

func (s Shape) attention() float64 { return 4 * float64(s.Hidden) * float64(s.Hidden) }

// Conditions are what is rented.
type Conditions struct {
	Platform cost.Platform
	Kept     bool // functions keep their parameters
	Gathers  bool // one invocation gathers a layer's answers
}

// inMemory is what a function has in memory beside its expert, assumed: a program and its buffers.
const inMemory = 32 << 20

// System returns the shape on what is rented, for batches of so many tokens. What is no expert runs in
// functions with the largest memory.
func (s Shape) System(c Conditions, tokens int) (*scatter.System, error) {
	largest := slices.Max(c.Platform.Sizes)
	dense := func(parameters float64) float64 {
		return float64(tokens) * c.Platform.CPU.Row(parameters*element) / c.Platform.CPUs(largest)
	}
	y := &scatter.System{
		Model: scatter.Model{
			Layers: s.Layers, Experts: s.Experts, TopK: s.TopK, Expert: s.Expert(), Intermediate: inMemory + float64(s.Inner)*element,
			In: float64(s.Hidden) * element, Out: float64(s.Hidden) * element, Next: s.attention() * element,
		},
		Functions: c.Platform, Between: dense(s.attention() + float64(s.Hidden*s.Experts)), Tail: dense(float64(s.Hidden * s.Vocab)),
		Kept: c.Kept, Gathers: c.Gathers,
	}
	y.Functions.CPU.ElementBytes = element
	return y, y.Check()
}

// The paper's cluster: two EPYC of 64 cores with 512 GB. A core has two threads, each of the rate of a
// function's processor, which is half of what its data sheet says; all of them read eight channels of
// DDR4-3200 a socket. It is assumed that fused kernels reach that rate, and that a framework which calls one
// kernel after another reaches half of it.
const (
	clusterMemory  = 512e9
	clusterThreads = 2 * 64 * 2
	clusterRead    = 2 * 204.8e9 * 0.8
	plainShare     = 0.5
	plainOverhead  = 100e-6 // of an expert
	fusedOverhead  = 20e-6
)

// Cluster returns the paper's machine at the platform's price of memory; Fitted has memory for the model
// alone, and fused kernels reach twice the rate.
func (s Shape) Cluster(c Conditions, fused, fitted bool) *ods.Cluster {
	r := cost.Roofline{Bandwidth: clusterRead, Rate: clusterThreads * c.Platform.CPU.Rate * plainShare, Overhead: plainOverhead, ElementBytes: element}
	if fused {
		r.Rate, r.Overhead = r.Rate/plainShare, fusedOverhead
	}
	y := &ods.Cluster{CPU: r, Memory: clusterMemory, Price: c.Platform.Memory}
	if fitted {
		y.Memory = float64(s.Layers) * (float64(s.Experts)*s.Expert() + s.attention()*element)
	}
	return y
}

// Remoe returns the shape as Remoe rents it, with what is no expert on a GPU and the experts that do not
// leave beside it on its host.
func (s Shape) Remoe(c Conditions) (*serverless.System, error) {
	y, err := rented.Shape{
		Name: s.Name, Element: element, Functions: [3]float64{128, 3008, 64}, Main: [3]float64{256, 64 << 10, 256}, Replicas: c.Platform.Replicas,
		Model: serverless.Model{
			Layers: s.Layers, Experts: s.Experts, TopK: s.TopK, Expert: s.Expert(), Fixed: (float64(s.Layers)*s.attention() + float64(s.Hidden*s.Vocab)) * element,
			Token: float64(s.Hidden) * element, Cache: float64(s.Layers*2*s.Hidden) * element,
		},
	}.System(rented.Conditions{Platform: c.Platform, Ratio: 3})
	if err != nil {
		return nil, err
	}
	y.Functions.Sizes, y.Network = c.Platform.Sizes, c.Platform.Direct
	return y, y.Check()
}
