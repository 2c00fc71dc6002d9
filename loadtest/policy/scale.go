package policy

import (
	"fmt"
	"io"

	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Scaled is what is printed of a scaling decision.
type Scaled struct {
	Experts    []ScaledExpert `json:"experts"` // by id
	CV         float64        `json:"cv"`
	AddedBytes uint64         `json:"added_bytes"`
	Reason     string         `json:"reason"`
}

// ScaledExpert is one of its experts.
type ScaledExpert struct {
	ID       uint32  `json:"id"`
	Replicas int     `json:"replicas"`
	LoadEach float64 `json:"load_each"`
}

// Scale decides how many replicas the experts of a layer have.
func Scale(name string, in io.Reader) (*Scaled, error) {
	p, err := registry.Find(name, registry.Scaling)
	if err != nil {
		return nil, fmt.Errorf("--name: %w", err)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	experts, settings, err := readLayer(v)
	if err != nil {
		return nil, err
	}
	d := p.Scale(experts, settings)
	s := &Scaled{Experts: make([]ScaledExpert, len(d.Experts)), CV: d.CV, AddedBytes: d.AddedBytes, Reason: d.Reason}
	for i, e := range d.Experts {
		s.Experts[i] = ScaledExpert{ID: e.ID, Replicas: e.Replicas, LoadEach: e.LoadEach}
	}
	return s, nil
}

func readLayer(v value) ([]scale.Expert, scale.Settings, error) {
	r := &reader{}
	r.object(v, "layer", "experts", "settings")
	r.id(v, "layer")
	var experts []scale.Expert
	for _, e := range r.list(v, "experts", true) {
		r.object(e, "id", "load", "bytes")
		experts = append(experts, scale.Expert{ID: r.id(e, "id"), Load: r.number(e, "load", true), Bytes: r.bytes(e, "bytes")})
	}
	settings := scale.Settings{}
	if s, ok := r.find(v, "settings", true); ok {
		r.object(s, "cv_threshold", "memory_cap_bytes", "max_replicas")
		settings = scale.Settings{
			CV: r.number(s, "cv_threshold", true), MemoryCap: r.bytes(s, "memory_cap_bytes"), MaxReplicas: r.count(s, "max_replicas", false),
		}
	}
	return experts, settings, r.checked(scale.Check(experts, settings))
}
