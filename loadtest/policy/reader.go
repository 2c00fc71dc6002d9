package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/place"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// reader takes typed values out of a state. It remembers the first that is
// wrong, by its path, and gives zeros from then on.
type reader struct{ err error }

func (r *reader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %s", ErrState, path, fmt.Sprintf(format, args...))
	}
}

// object wants an object with no fields but these.
func (r *reader) object(v value, names ...string) {
	if v.token != json.Delim('{') {
		r.fail(cmp.Or(v.path, "the state"), "must be a JSON object with %s", strings.Join(names, ", "))
		return
	}
	for _, f := range v.fields {
		if !slices.Contains(names, f.name) {
			r.fail(f.path, "is unknown; fields here are %s", strings.Join(names, ", "))
		}
	}
}

// find is a field; an error if it must be there and is not.
func (r *reader) find(v value, name string, must bool) (value, bool) {
	for _, f := range v.fields {
		if f.name == name {
			return f.value, true
		}
	}
	if must {
		r.fail(v.at(name), "is missing")
	}
	return value{}, false
}

// list is a list of objects.
func (r *reader) list(v value, name string, must bool) []value {
	f, ok := r.find(v, name, must)
	if !ok || f.token == nil && !must {
		return nil
	}
	if f.token != json.Delim('[') {
		r.fail(f.path, "must be a list")
	}
	return f.list
}

// number is a number of at least 0.
func (r *reader) number(v value, name string, must bool) float64 {
	f, ok := r.find(v, name, must)
	if !ok {
		return 0
	}
	text, ok := f.token.(json.Number)
	if !ok {
		r.fail(f.path, "must be a number")
		return 0
	}
	n, err := text.Float64()
	if err != nil || !(n >= 0) {
		r.fail(f.path, "is %s; it must be a number of at least 0", text)
		return 0
	}
	return n
}

// mostExact is the largest count that a float64, and so JSON, holds exactly.
const mostExact = 1 << 53

// whole is a whole number from 0 to most, however it is written.
func (r *reader) whole(v value, name string, must bool, most float64) uint64 {
	n := r.number(v, name, must)
	if n > most || n != math.Trunc(n) {
		r.fail(v.at(name), "is %v; it must be a whole number from 0 to %.0f", n, most)
		return 0
	}
	return uint64(n)
}

func (r *reader) id(v value, name string) uint32 {
	return uint32(r.whole(v, name, true, math.MaxUint32))
}

func (r *reader) count(v value, name string, must bool) int {
	return int(r.whole(v, name, must, math.MaxInt32))
}

func (r *reader) bytes(v value, name string) uint64 {
	return r.whole(v, name, true, mostExact)
}

func (r *reader) text(v value, name string) string {
	f, ok := r.find(v, name, true)
	if !ok {
		return ""
	}
	s, ok := f.token.(string)
	if !ok {
		r.fail(f.path, "must be a string")
	}
	return s
}

// checked adds what the policies' own check says.
func (r *reader) checked(err error) error {
	if r.err != nil {
		return r.err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

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

// PrefetchName is the one policy of prefetching.
const PrefetchName = "fmoe"

// Prefetched is what is printed of a selection.
type Prefetched struct {
	Experts []int `json:"experts"` // in the order in which they are fetched
}

// Prefetch decides which experts of a layer are fetched by a map of such a score.
func Prefetch(name string, in io.Reader) (*Prefetched, error) {
	if name != PrefetchName {
		return nil, fmt.Errorf("--name: %w: %q prefetches nothing; there is %s", registry.ErrUnknown, name, PrefetchName)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "probabilities", "score", "top_k")
	row, score, k := r.numbers(v, "probabilities"), r.signed(v, "score"), r.count(v, "top_k", true)
	switch {
	case len(row) == 0:
		r.fail("probabilities", "is empty; it must have the probability of each expert")
	case score < -1 || score > 1:
		r.fail("score", "is %v; it must be -1 to 1", score)
	case k > len(row):
		r.fail("top_k", "is %d; there are %d experts", k, len(row))
	}
	if r.err != nil {
		return nil, r.err
	}
	p := &Prefetched{Experts: []int{}}
	for _, h := range expertmap.Select(row, score, k, nil) {
		p.Experts = append(p.Experts, h.Expert)
	}
	return p, nil
}

// numbers is a list of numbers from 0 to 1.
func (r *reader) numbers(v value, name string) (list []float64) {
	for _, one := range r.list(v, name, true) {
		text, ok := one.token.(json.Number)
		n, err := text.Float64()
		if !ok || err != nil || !(n >= 0 && n <= 1) {
			r.fail(one.path, "must be a number from 0 to 1")
		}
		list = append(list, n)
	}
	return list
}

func (r *reader) signed(v value, name string) float64 {
	f, ok := r.find(v, name, true)
	if !ok {
		return 0
	}
	text, ok := f.token.(json.Number)
	n, err := text.Float64()
	if !ok || err != nil {
		r.fail(f.path, "must be a number")
		return 0
	}
	return n
}

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
