package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// instance is one request to a model on a serverless platform.
type instance struct {
	serverless.System
	request    remoe.Request
	demand     serverless.Demand
	activation []float32
	plans      []serverless.Plan
	absurd     bool // a bill was no finite number
}

// The bounds of instances, so that what is read can be computed with.
const (
	mostInstanceLayers  = 1 << 8
	mostInstanceExperts = 1 << 9
	mostInstanceValues  = 1 << 14 // layers times experts
	mostInstanceTokens  = 1 << 20
)

func readInstance(v value) (*instance, error) {
	r, x := &reader{}, &instance{}
	r.object(v, "model", "platform", "gpu", "switch", "request", "slo", "prefill", "tokens", "activation", "plans")
	r.model(v, x)
	r.platform(v, x)
	r.request(v, x)
	if r.err == nil && x.Layers*x.Experts > mostInstanceValues {
		r.fail("model", "has %d experts in all; there may be %d", x.Layers*x.Experts, mostInstanceValues)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := x.System.Check(); err != nil {
		return nil, r.checked(err)
	}
	r.demand(v, x)
	r.foretold(v, x)
	for _, p := range r.list(v, "plans", false) {
		x.plans = append(x.plans, r.plan(p, x))
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := x.request.Check(); err != nil {
		return nil, r.checked(err)
	}
	return x, r.checked(x.demand.Check(x.Model))
}

func (r *reader) part(v value, name string, fields ...string) value {
	f, _ := r.find(v, name, true)
	if r.err == nil {
		r.object(f, fields...)
	}
	return f
}

// upTo is a count from 1 to most.
func (r *reader) upTo(v value, name string, most int) int {
	n := r.count(v, name, true)
	if r.err == nil && (n < 1 || n > most) {
		r.fail(v.at(name), "is %d; it must be 1 to %d", n, most)
	}
	return n
}

func (r *reader) model(v value, x *instance) {
	m := r.part(v, "model", "layers", "experts", "top_k", "expert_bytes", "other_bytes", "row_bytes", "cache_bytes_per_token")
	x.Model = serverless.Model{
		Layers: r.upTo(m, "layers", mostInstanceLayers), Experts: r.upTo(m, "experts", mostInstanceExperts), TopK: r.upTo(m, "top_k", mostInstanceExperts),
		Expert: r.number(m, "expert_bytes", true), Fixed: r.number(m, "other_bytes", true), Token: r.number(m, "row_bytes", true), Cache: r.number(m, "cache_bytes_per_token", true),
	}
}

func (r *reader) platform(v value, x *instance) {
	p := r.part(v, "platform", "memory_bytes", "main_memory_bytes", "memory_per_cpu_bytes", "read_bytes_per_second", "flops_per_second", "element_bytes", "expert_processors",
		"container_seconds", "parameter_bytes_per_second", "invocation_seconds", "payload_bytes", "network_bytes_per_second", "dollars_per_gb_second", "gpu_price_ratio", "replicas")
	x.Functions = cost.Platform{
		Sizes: r.floats(p, "memory_bytes"), PerCPU: r.number(p, "memory_per_cpu_bytes", true), Threads: r.number(p, "expert_processors", false),
		CPU:       cost.Roofline{Bandwidth: r.number(p, "read_bytes_per_second", true), Rate: r.number(p, "flops_per_second", true), ElementBytes: r.number(p, "element_bytes", true)},
		Container: r.number(p, "container_seconds", true), Parameters: cost.Link{Bandwidth: r.number(p, "parameter_bytes_per_second", true)},
		Fixed: r.number(p, "invocation_seconds", true), Payload: r.number(p, "payload_bytes", true), Prices: cost.Prices{Memory: r.number(p, "dollars_per_gb_second", true)},
	}
	x.Main, x.Network, x.Replicas = r.floats(p, "main_memory_bytes"), r.number(p, "network_bytes_per_second", true), r.count(p, "replicas", true)
	x.GPUPrice = r.number(p, "gpu_price_ratio", true) * x.Functions.Memory
	g := r.part(v, "gpu", "read_bytes_per_second", "flops_per_second", "access_seconds", "layer_seconds")
	x.GPU = cost.Roofline{
		Bandwidth: r.number(g, "read_bytes_per_second", true), Rate: r.number(g, "flops_per_second", true), Overhead: r.number(g, "access_seconds", false), ElementBytes: x.Functions.CPU.ElementBytes,
	}
	x.GPULayer = r.number(g, "layer_seconds", true)
	s := r.part(v, "switch", "latency_seconds", "bytes_per_second")
	x.Switch = cost.Link{Latency: r.number(s, "latency_seconds", true), Bandwidth: r.number(s, "bytes_per_second", true)}
}

func (r *reader) request(v value, x *instance) {
	q := r.part(v, "request", "prompt_tokens", "most_prompt_tokens", "output_tokens", "decided_seconds")
	o := r.part(v, "slo", "ttft_seconds", "tpot_seconds")
	x.request = remoe.Request{
		Prompt: r.upTo(q, "prompt_tokens", mostInstanceTokens), Most: r.count(q, "most_prompt_tokens", false), Output: r.count(q, "output_tokens", true),
		SLO: serverless.SLO{TTFT: r.number(o, "ttft_seconds", true), TPOT: r.number(o, "tpot_seconds", true)}, Decided: r.number(q, "decided_seconds", false),
	}
	if x.request.Most == 0 {
		x.request.Most = x.request.Prompt
	}
	if x.request.Most > mostInstanceTokens || x.request.Output > mostInstanceTokens {
		r.fail("request", "has more than %d tokens", mostInstanceTokens)
	}
}

// demand are the rows that come: of each layer those of its experts in prefill, and each output
// token's experts.
func (r *reader) demand(v value, x *instance) {
	x.demand = serverless.Demand{Prompt: x.request.Prompt, Output: x.request.Output, Layers: make([]serverless.Rows, x.Layers)}
	prefill, tokens := r.list(v, "prefill", true), r.list(v, "tokens", true)
	if r.err == nil && (len(prefill) != x.Layers || len(tokens) != x.request.Output) {
		r.fail("the state", "has prefill of %d layers and %d tokens; there are %d layers and output tokens are %d", len(prefill), len(tokens), x.Layers, x.request.Output)
	}
	if r.err != nil {
		return
	}
	for l := range x.demand.Layers {
		x.demand.Layers[l] = serverless.Rows{Prefill: r.row(prefill[l], x.Experts), Decode: make([]float64, x.Experts), Tokens: make([][]int, 0, len(tokens))}
	}
	for _, t := range tokens {
		if len(t.list) != x.Layers {
			r.fail(t.path, "has choices in %d layers; there are %d", len(t.list), x.Layers)
			return
		}
		for l, c := range t.list {
			r.token(c, x, &x.demand.Layers[l])
		}
	}
}

// token reads an output token's experts in a layer.
func (r *reader) token(c value, x *instance, to *serverless.Rows) {
	chosen, seen := []int{}, map[int]bool{}
	for _, one := range c.list {
		e := int(r.whole(value{fields: []field{{name: one.path, value: one}}}, one.path, true, mostInstanceExperts))
		if e >= x.Experts || seen[e] {
			r.fail(one.path, "is %d; a token's experts differ, and there are %d", e, x.Experts)
			return
		}
		seen[e] = true
		chosen = append(chosen, e)
		to.Decode[e]++
	}
	if len(chosen) != x.TopK {
		r.fail(c.path, "has %d experts; top_k is %d", len(chosen), x.TopK)
	}
	to.Tokens = append(to.Tokens, chosen)
}

// foretold is the activation that Remoe plans by: without one, the shares of prefill.
func (r *reader) foretold(v value, x *instance) {
	if r.err != nil {
		return
	}
	rows := r.list(v, "activation", false)
	if rows != nil && len(rows) != x.Layers {
		r.fail("activation", "has %d layers; there are %d", len(rows), x.Layers)
		return
	}
	for l := range x.Layers {
		of := x.demand.Layers[l].Prefill
		if rows != nil {
			of = r.row(rows[l], x.Experts)
		}
		sum := 0.0
		for _, n := range of {
			sum += n
		}
		if r.err == nil && sum == 0 {
			r.fail("layer", "%d has no rows to plan by; give prefill or an activation with some", l)
		}
		for _, n := range of {
			x.activation = append(x.activation, float32(n/max(sum, 1e-300)))
		}
	}
}

func (r *reader) plan(p value, x *instance) (out serverless.Plan) {
	r.object(p, "main_memory_bytes", "layers")
	out.Main = r.number(p, "main_memory_bytes", true)
	for _, l := range r.list(p, "layers", true) {
		r.object(l, "remote", "memory_bytes", "replicas")
		one := serverless.Layer{Remote: make([]bool, x.Experts), Memory: r.number(l, "memory_bytes", true), Replicas: r.count(l, "replicas", true)}
		for _, e := range r.floats(l, "remote") {
			if e >= float64(x.Experts) || e != math.Trunc(e) || one.Remote[int(e)] {
				r.fail(l.at("remote"), "names expert %v; experts are 0 to %d, each once", e, x.Experts-1)
				break
			}
			one.Remote[int(e)] = true
		}
		out.Layers = append(out.Layers, one)
	}
	return out
}

// floats is a field that is a list of numbers of at least 0.
func (r *reader) floats(v value, name string) []float64 {
	f, ok := r.find(v, name, true)
	if !ok {
		return nil
	}
	return r.row(f, -1)
}

// row is a list of so many numbers of at least 0; of -1 any.
func (r *reader) row(v value, n int) (list []float64) {
	if v.token != json.Delim('[') || n >= 0 && len(v.list) != n {
		r.fail(v.path, "must be a list of numbers, one for each expert or choice")
		return make([]float64, max(0, n))
	}
	for _, one := range v.list {
		text, ok := one.token.(json.Number)
		x, err := text.Float64()
		if !ok || err != nil || !(x >= 0) {
			r.fail(one.path, "must be a number of at least 0")
		}
		list = append(list, x)
	}
	return list
}

// value is a value of a JSON text: an object's fields, a list's elements, or
// what json.Token says of the rest, with numbers as they are written.
type value struct {
	path   string
	token  any
	fields []field
	list   []value
}

type field struct {
	name string
	value
}

// mostDepth bounds lists and objects within each other; states need three.
const mostDepth = 16

// parse reads one JSON value. Unlike package json's decoding into structs, it
// keeps what is written more than once or in other cases apart, so that
// nothing of it can be lost in silence.
func parse(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, "", 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows behind the object")
		}
	}
	return v, notJSON(err, d.InputOffset())
}

// notJSON says in full sentences what package json says.
func notJSON(err error, at int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early for a JSON object")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no JSON: %w (near byte %d)", err, at)
	}
	return err
}

func parseValue(d *json.Decoder, path string, depth int) (value, error) {
	t, err := d.Token()
	if err != nil {
		return value{}, err
	}
	v := value{path: path, token: t}
	if depth > mostDepth {
		return v, fmt.Errorf("%s: more than %d lists and objects lie within each other", path, mostDepth)
	}
	switch t {
	case json.Delim('{'):
		err = parseFields(d, &v, depth)
	case json.Delim('['):
		err = parseList(d, &v, depth)
	default:
		return v, nil
	}
	if err == nil {
		_, err = d.Token() // the end, or Token itself would have failed
	}
	return v, err
}

func parseFields(d *json.Decoder, v *value, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // Token lets only strings be keys
		if seen[name] {
			return fmt.Errorf("%s is there twice", v.at(name))
		}
		seen[name] = true
		one, err := parseValue(d, v.at(name), depth+1)
		if err != nil {
			return err
		}
		v.fields = append(v.fields, field{name, one})
	}
	return nil
}

func parseList(d *json.Decoder, v *value, depth int) error {
	for d.More() {
		one, err := parseValue(d, fmt.Sprintf("%s[%d]", v.path, len(v.list)), depth+1)
		if err != nil {
			return err
		}
		v.list = append(v.list, one)
	}
	return nil
}

// at is the path of a field.
func (v value) at(name string) string {
	if v.path == "" {
		return name
	}
	return v.path + "." + name
}
