package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Model is a model's shape, with the bytes that steps read.
type Model struct {
	Name string
	routing.Shape
	Hidden int // the width of a row
	// ExpertBytes are those of a routed expert. LayerBytes are what else of a layer is read
	// once a step: attention, and shared experts, which are never offloaded. HeadBytes are
	// those of the matrix that makes tokens.
	ExpertBytes, LayerBytes, HeadBytes float64
	// Full are the bytes of all routed experts of the model that budgets are stated for; budgets
	// count in proportion if this one has others.
	Full float64
}

// All are the bytes of all routed experts.
func (m Model) All() float64 { return float64(m.Layers*m.Experts) * m.ExpertBytes }

// Budget is the part of a stated budget that leaves as large a share of the experts as it does
// of the model that it is stated for.
func (m Model) Budget(stated float64) float64 {
	if m.Full == 0 {
		return stated
	}
	return stated * m.All() / m.Full
}

// half is bf16.
const half = 2

// models are those of the paper (table 1); matrices are of their config.json files, 2 bytes an
// element: of experts 3 of hidden by intermediate, of attention q and o of hidden by hidden and
// k and v of hidden by the key heads' width.
var models = []Model{
	{
		Name: "mixtral-8x7b", Shape: routing.Shape{Layers: 32, Experts: 8, TopK: 2}, Hidden: 4096,
		ExpertBytes: 3 * 4096 * 14336 * half, LayerBytes: (2*4096*4096 + 2*4096*1024) * half, HeadBytes: 4096 * 32000 * half,
	},
	{ // the shared expert is as wide as four routed ones
		Name: "qwen1.5-moe", Shape: routing.Shape{Layers: 24, Experts: 60, TopK: 4}, Hidden: 2048,
		ExpertBytes: 3 * 2048 * 1408 * half, LayerBytes: (4*2048*2048 + 3*2048*5632) * half, HeadBytes: 2048 * 151936 * half,
	},
	{
		Name: "phi-3.5-moe", Shape: routing.Shape{Layers: 32, Experts: 16, TopK: 2}, Hidden: 4096,
		ExpertBytes: 3 * 4096 * 6400 * half, LayerBytes: (2*4096*4096 + 2*4096*1024) * half, HeadBytes: 4096 * 32064 * half,
	},
}

// Demo is the demo model with the bytes of Phi-3.5-MoE, which has as many experts a layer and
// as many a row, but four times the layers: budgets leave it the same share of its experts.
func Demo() Model {
	m := models[2]
	m.Name, m.Full, m.Layers = "demo", m.All(), 8
	return m
}

// Models are the names that Open knows.
func Models() (names []string) {
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// Open is the model of a name.
func Open(name string) (Model, error) {
	at := slices.Index(Models(), name)
	if at < 0 {
		return Model{}, fmt.Errorf("there is no shape %q; there are %s", name, strings.Join(Models(), ", "))
	}
	return models[at], nil
}

// Testbed is where a model is served.
type Testbed struct {
	// Hosts hold experts round robin: expert e of layer l is on host (l·J + e) mod Hosts, or, where
	// each layer begins anew, on e mod Hosts, as plans without a scaler have it.
	Hosts int
	Anew  bool
	// Device computes experts, on each host, and all else.
	Device cost.Device
	// Link is each host's.
	Link cost.Link
	// Shared bounds the bytes a second of all links together; 0 does not.
	Shared float64
	// Below is what hosts' memory is filled from.
	Below Below
	// Piece is how many bytes move before a more urgent transfer goes on.
	Piece float64
	// Memory is the bytes of a host's device.
	Memory float64
}

const (
	hosts = 6       // fMoE, section 6.1
	piece = 2 << 20 // assumed: 66 µs on the link
	// latency is assumed: the launch of a copy.
	latency = 10e-6
)

// At is the number of the host of an expert, of a layer with so many.
func (t Testbed) At(layer, expert, experts int) int {
	if t.Anew {
		layer = 0
	}
	return (layer*experts + expert) % t.Hosts
}

// RTX3090 is the paper's testbed (section 6.1), by the profile of that name.
func RTX3090() (Testbed, error) {
	p, err := profiles.Open("rtx3090-mixtral")
	if err != nil {
		return Testbed{}, err
	}
	t := Testbed{Hosts: hosts, Device: p.Compute(), Link: p.Link(), Piece: piece, Memory: p.MemoryBytes.Value}
	t.Link.Latency = latency
	return t, nil
}

// Delays are what predictions take until hosts have them, in seconds.
type Delays struct {
	// Gate is a gate that is computed for a later layer, Learned a network, Counts a comparison
	// of request-level counts, Trajectory a search by what a row's gates have said, Semantic
	// one by its embedding.
	Gate, Learned, Counts, Trajectory, Semantic float64
}

// DefaultDelays are bounds that have to be kept elsewhere.
func DefaultDelays() Delays {
	return Delays{
		Gate:       20e-6,  // a call of the device (profile)
		Learned:    200e-6, // MoEless, section 6.6: below 0.2 ms a layer
		Counts:     200e-6, // assumed, as Learned
		Trajectory: 50e-6,  // the bound for a thousand maps of Qwen1.5-MoE's shape
		Semantic:   1e-3,   // the same
	}
}

// Check says what is wrong with a testbed for a model.
func (t Testbed) Check(m Model, budget float64) error {
	switch {
	case t.Hosts < 1 || t.Device.Timer == nil:
		return fmt.Errorf("a testbed has %d hosts; it needs one at least, and a device", t.Hosts)
	case !(t.Link.Bandwidth > 0) || !(t.Piece > 0):
		return fmt.Errorf("a link moves %v bytes a second in pieces of %v; a profile for offloading needs both above 0", t.Link.Bandwidth, t.Piece)
	case budget < float64(t.Hosts)*m.ExpertBytes:
		return fmt.Errorf("a budget of %.2f GB on %d hosts holds no expert of %s a host; one takes %.4f GB: take %.2f GB or more", budget/1e9, t.Hosts, m.Name, m.ExpertBytes/1e9, float64(t.Hosts)*m.ExpertBytes/1e9)
	case t.Below.Bytes > 0 && (t.Below.Bytes < m.ExpertBytes || !(t.Below.Link.Bandwidth > 0)):
		return fmt.Errorf("the memory below has %.2f GB, filled at %v bytes a second; it needs %.2f GB for an expert of %s, and a bandwidth", t.Below.Bytes/1e9, t.Below.Link.Bandwidth, m.ExpertBytes/1e9, m.Name)
	case budget > float64(t.Hosts)*t.Memory:
		return fmt.Errorf("a budget of %.0f GB is more than %d hosts have, %.0f GB", budget/1e9, t.Hosts, float64(t.Hosts)*t.Memory/1e9)
	}
	return t.Link.Check()
}
