package profiles

import (
	"embed"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Platform is a serverless platform, each number with its source.
type Platform struct {
	// Name is that of the file, without its folder and ending.
	Name string
	// About is for people.
	About string
	// Sizes are the bytes of memory that a function can have, SizesSource where they are from.
	Sizes       []float64
	SizesSource string
	// The rest is as in cost.Platform.
	PerCPU, Read, Rate, Element, Access Number
	Container, Latency, Bandwidth       Number
	Fixed, Random, Payload              Number
	Memory, Requests, Stored            Number
	Direct, Puts, Gets, Replicas        Number
}

// platformFields are all numbers of a platform.
var platformFields = []field[Platform]{
	{"memory_per_cpu_bytes", func(p *Platform) *Number { return &p.PerCPU }, 1 << 20, mostBytes, true},
	{"read_bytes_per_second", func(p *Platform) *Number { return &p.Read }, 1e6, mostRead, false},
	{"flops_per_second", func(p *Platform) *Number { return &p.Rate }, 1e6, mostRate, false},
	{"element_bytes", func(p *Platform) *Number { return &p.Element }, 0.25, 8, false},
	{"access_seconds", func(p *Platform) *Number { return &p.Access }, 0, 0.1, false},
	{"container_seconds", func(p *Platform) *Number { return &p.Container }, 0, mostStart, false},
	{"parameter_latency_seconds", func(p *Platform) *Number { return &p.Latency }, 0, mostStart, false},
	{"parameter_bytes_per_second", func(p *Platform) *Number { return &p.Bandwidth }, 1e3, mostLink, false},
	{"invocation_seconds", func(p *Platform) *Number { return &p.Fixed }, 0, mostStart, false},
	{"invocation_random_seconds", func(p *Platform) *Number { return &p.Random }, 0, mostStart, false},
	{"payload_bytes", func(p *Platform) *Number { return &p.Payload }, 1, mostBytes, true},
	{"dollars_per_gb_second", func(p *Platform) *Number { return &p.Memory }, 0, mostDollars, false},
	{"dollars_per_request", func(p *Platform) *Number { return &p.Requests }, 0, mostDollars, false},
	{"dollars_per_stored_gb_second", func(p *Platform) *Number { return &p.Stored }, 0, mostDollars, false},
	{"message_bytes_per_second", func(p *Platform) *Number { return &p.Direct }, 1e3, mostLink, false},
	{"dollars_per_put", func(p *Platform) *Number { return &p.Puts }, 0, mostDollars, false},
	{"dollars_per_get", func(p *Platform) *Number { return &p.Gets }, 0, mostDollars, false},
	{"replicas", func(p *Platform) *Number { return &p.Replicas }, 1, mostReplicas, true},
}

// mostDollars is what a GB for a second, or a request, never costs: memory of the dearest
// GPUs is a thousand times cheaper.
const mostDollars = 0.1

const mostReplicas = 64

// Cost returns the platform without sources.
func (p *Platform) Cost() cost.Platform {
	return cost.Platform{
		Sizes: p.Sizes, PerCPU: p.PerCPU.Value,
		CPU:       cost.Roofline{Bandwidth: p.Read.Value, Rate: p.Rate.Value, Overhead: p.Access.Value, ElementBytes: p.Element.Value},
		Container: p.Container.Value, Parameters: cost.Link{Latency: p.Latency.Value, Bandwidth: p.Bandwidth.Value},
		Fixed: p.Fixed.Value, Random: p.Random.Value, Payload: p.Payload.Value,
		Direct: p.Direct.Value, Replicas: int(p.Replicas.Value),
		Prices: cost.Prices{Memory: p.Memory.Value, Requests: p.Requests.Value, Stored: p.Stored.Value, Puts: p.Puts.Value, Gets: p.Gets.Value},
	}
}

// Assumed returns the names of the numbers whose source says that they are assumed.
func (p *Platform) Assumed() (keys []string) {
	for _, f := range platformFields {
		if strings.Contains(f.of(p).Source, "assumed") {
			keys = append(keys, f.key)
		}
	}
	return keys
}

//go:embed platforms/*.yaml
var platforms embed.FS

// PlatformNames returns the platforms in this binary.
func PlatformNames() []string { return namesIn(platforms, "platforms") }

// OpenPlatform returns the platform of this name or, if there is none, in this file.
func OpenPlatform(nameOrFile string) (*Platform, error) {
	file, data, err := find("platform", nameOrFile, platforms, "platforms/", PlatformNames())
	if err != nil {
		return nil, err
	}
	return ReadPlatform(file, data)
}

// ReadPlatform reads a platform. Its errors say where in the file they are.
func ReadPlatform(file string, data []byte) (*Platform, error) {
	r := reader{file}
	top, err := r.document(data)
	if err != nil {
		return nil, err
	}
	p := &Platform{Name: nameOf(file)}
	keys := map[string]func(*yaml.Node) error{
		"platform":     func(n *yaml.Node) (err error) { p.About, err = r.text("platform", n); return err },
		"memory_sizes": func(n *yaml.Node) error { return r.sizes(p, n) },
	}
	for _, f := range platformFields {
		keys[f.key] = func(n *yaml.Node) (err error) { *f.of(p), err = r.number(f.key, f.check, n); return err }
	}
	if err := r.mapping("the platform", top, keys); err != nil {
		return nil, err
	}
	if err := p.Cost().Check(); err != nil {
		return nil, r.wrong(top, err)
	}
	return p, nil
}

// sizes are a list of bytes with its source.
func (r reader) sizes(p *Platform, n *yaml.Node) error {
	return r.mapping("memory_sizes", n, map[string]func(*yaml.Node) error{
		"source": func(n *yaml.Node) (err error) {
			p.SizesSource, err = r.text("the source of memory_sizes", n)
			return err
		},
		"values": func(n *yaml.Node) (err error) {
			p.Sizes, err = r.numbers(field[Profile]{key: "values of memory_sizes", least: 1 << 20, most: mostBytes, whole: true}, n, mostSizes)
			return err
		},
	})
}

const mostSizes = 1000
