package policy

import (
	"fmt"
	"io"

	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// Placed is what is printed of a placement.
type Placed struct {
	Placement []PlacedReplica `json:"placement"` // by expert, then host
	Hosts     []PlacedHost    `json:"hosts"`     // by id
}

// PlacedReplica is a replica with its host.
type PlacedReplica struct {
	Expert uint32 `json:"expert"`
	Host   string `json:"host"`
	Warm   bool   `json:"warm"`
}

// PlacedHost is what a host has got.
type PlacedHost struct {
	ID    string  `json:"id"`
	Load  float64 `json:"load"`
	Bytes uint64  `json:"bytes"`
}

// Place decides which hosts run the replicas of a layer. The error is
// place.ErrNoRoom where the state is fine and a replica fits nowhere.
func Place(name string, in io.Reader) (*Placed, error) {
	policy, err := registry.Find(name, registry.Placing)
	if err != nil {
		return nil, fmt.Errorf("--name: %w", err)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	state, err := readState(v)
	if err != nil {
		return nil, err
	}
	p, err := policy.Place(state)
	if err != nil {
		return nil, err
	}
	return printed(p), nil
}

func printed(p place.Placement) *Placed {
	out := &Placed{Placement: make([]PlacedReplica, len(p.Replicas)), Hosts: make([]PlacedHost, len(p.Hosts))}
	for i, r := range p.Replicas {
		out.Placement[i] = PlacedReplica(r)
	}
	for i, h := range p.Hosts {
		out.Hosts[i] = PlacedHost(h)
	}
	return out
}

func readState(v value) (s place.State, err error) {
	r := &reader{}
	r.object(v, "layer", "experts", "hosts", "previous")
	r.id(v, "layer")
	for _, e := range r.list(v, "experts", true) {
		r.object(e, "id", "replicas", "load_each", "bytes")
		s.Experts = append(s.Experts, place.Expert{
			ID: r.id(e, "id"), Replicas: r.count(e, "replicas", true), LoadEach: r.number(e, "load_each", true), Bytes: r.bytes(e, "bytes"),
		})
	}
	for _, h := range r.list(v, "hosts", true) {
		r.object(h, "id", "capacity_bytes")
		s.Hosts = append(s.Hosts, place.Host{ID: r.text(h, "id"), Capacity: r.bytes(h, "capacity_bytes")})
	}
	for _, w := range r.list(v, "previous", false) {
		r.object(w, "expert", "host")
		s.Previous = append(s.Previous, place.Warm{Expert: r.id(w, "expert"), Host: r.text(w, "host")})
	}
	return s, r.checked(place.Check(s))
}
