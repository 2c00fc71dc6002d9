package top

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Replicas are how many live hosts have each expert of a layer, by expert id.
type Replicas struct {
	Layer int `json:"layer"`
	// Warm ones take rows; Kept ones have the weights and take none; Cold ones are
	// loaded when rows come, or are being loaded.
	Warm []int `json:"warm"`
	Kept []int `json:"kept"`
	Cold []int `json:"cold"`
}

// Bounds of what is believed.
const (
	maxExperts = 1 << 12
	maxLayers  = 1 << 10
)

// statColdStarts counts functions that rows found cold.
const statColdStarts = "cold_starts_total"

// replicas reads what live hosts say of their functions, and of which experts these
// are from the plans; nothing where there are no such buckets, or no rights.
func (r *Reader) replicas(ctx context.Context, members []Member) (all []Replicas, plans []Planned) {
	layers := map[int]*pb.LayerPlan{}
	r.eachValue(ctx, "plans", func(e jetstream.KeyValueEntry) {
		l := &pb.LayerPlan{}
		if number, err := strconv.Atoi(e.Key()); err == nil && proto.Unmarshal(e.Value(), l) == nil && int(l.Layer) == number && number < maxLayers {
			layers[number] = l
			plans = append(plans, plannedOf(l, e.Created()))
		}
	})
	said := map[int][]*pb.FunctionState{}
	r.eachValue(ctx, "functions", func(e jetstream.KeyValueEntry) {
		h := &pb.HostLayer{}
		_, host, _ := strings.Cut(e.Key(), ".")
		live := slices.ContainsFunc(members, func(m Member) bool { return m.ID == host && m.Service == "expert" })
		if live && proto.Unmarshal(e.Value(), h) == nil && h.Host == host && layers[int(h.Layer)] != nil {
			said[int(h.Layer)] = append(said[int(h.Layer)], h.Functions...)
		}
	})
	for layer, states := range said {
		all = append(all, count(layers[layer], states))
	}
	slices.SortFunc(all, func(a, b Replicas) int { return a.Layer - b.Layer })
	slices.SortFunc(plans, func(a, b Planned) int { return a.Layer - b.Layer })
	return all, plans
}

// eachValue reads a bucket.
func (r *Reader) eachValue(ctx context.Context, bucket string, take func(jetstream.KeyValueEntry)) {
	kv, err := r.js.KeyValue(ctx, r.names.Bucket(bucket))
	if err != nil {
		return
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return
	}
	defer func() { _ = w.Stop() }() // fails without a connection only
	for {
		select {
		case e := <-w.Updates():
			if e == nil {
				return // that was all there is
			}
			take(e)
		case <-ctx.Done():
			return
		}
	}
}

// count adds up the states of a layer's functions by expert. Those that the plan
// does not have any more are known if they are of one expert.
func count(l *pb.LayerPlan, states []*pb.FunctionState) Replicas {
	layer, of, experts := int(l.Layer), map[string][]uint32{}, 0
	for _, f := range l.Functions {
		if f.GetKind() != plan.Routed {
			continue
		}
		for _, e := range f.GetExperts() {
			experts = max(experts, min(int(e)+1, maxExperts))
		}
	}
	for e := range uint32(experts) {
		of[plan.FunctionID(layer, []uint32{e}, plan.Routed)] = []uint32{e}
	}
	for _, f := range l.Functions {
		if f.GetKind() == plan.Routed {
			of[f.GetId()] = f.GetExperts()
		}
	}
	r := Replicas{Layer: layer, Warm: make([]int, experts), Kept: make([]int, experts), Cold: make([]int, experts)}
	for _, s := range states {
		if in := r.column(s); in != nil {
			for _, e := range of[s.GetId()] {
				if int(e) < experts {
					in[e]++
				}
			}
		}
	}
	return r
}

// column is where a function in such a state counts; nil for nowhere.
func (r *Replicas) column(s *pb.FunctionState) []int {
	switch s.GetPhase() {
	case pb.FunctionPhase_FUNCTION_PHASE_WARM, pb.FunctionPhase_FUNCTION_PHASE_DRAINING:
		if s.Joined {
			return r.Warm
		}
		return r.Kept
	case pb.FunctionPhase_FUNCTION_PHASE_COLD, pb.FunctionPhase_FUNCTION_PHASE_WARMING:
		return r.Cold
	}
	return nil
}

// glyphs draws a rune an expert: the number of its warm replicas, + for more than
// nine; without any, k if it is kept somewhere, c if it is cold, and · for nowhere.
func (r *Replicas) glyphs() string {
	var b strings.Builder
	for e, warm := range r.Warm {
		switch {
		case warm > 9:
			b.WriteByte('+')
		case warm > 0:
			b.WriteString(strconv.Itoa(warm))
		case r.Kept[e] > 0:
			b.WriteByte('k')
		case r.Cold[e] > 0:
			b.WriteByte('c')
		default:
			b.WriteString("·")
		}
	}
	return b.String()
}

func total(x []int) (n int) {
	for _, i := range x {
		n += i
	}
	return n
}
