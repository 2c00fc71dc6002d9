package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/control/members"
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

// column returns where a function in such a state counts; nil for nowhere.
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

// gpu returns what the GPU of a replica says, as far as it does.
func (m *Member) gpu() (words []string) {
	for _, f := range []struct {
		fact   cuda.FactName
		format string
		unit   float64
	}{
		{cuda.Power, "%.0f W", 1},
		{cuda.Temperature, "%.0f °C", 1},
		{cuda.Busy, "busy %.0f%%", 0.01},
		{cuda.MemoryUsed, "memory %.1f GiB used", 1 << 30},
		{cuda.MemoryFree, "%.1f GiB free", 1 << 30},
		{cuda.Uncorrected, "%.0f memory errors", 1},
	} {
		if v, says := m.Stats[string(f.fact)]; says {
			words = append(words, fmt.Sprintf(f.format, v/f.unit))
		}
	}
	switch throttled := m.Stats[members.DeviceThrottled] > 0; {
	case throttled && m.Service == "gate": // nobody avoids one
		words = append(words, "throttled")
	case throttled:
		words = append(words, "throttled: work goes to others")
	}
	return words
}

// Planned is a layer's plan that a scaler has made by loads.
type Planned struct {
	Layer int `json:"layer"`
	// AgeSeconds is since it was written, by the server's clock and this one.
	AgeSeconds float64 `json:"age_seconds"`
	Policy     string  `json:"policy"`
	Reason     string  `json:"reason"`
}

func plannedOf(l *pb.LayerPlan, written time.Time) Planned {
	return Planned{
		Layer: int(l.Layer), AgeSeconds: max(0, time.Since(written).Seconds()), Policy: clean(l.Policy), Reason: clean(l.Reason),
	}
}

// shownPlans are the plans that are shown: those that were written last.
const shownPlans = 3

// plans has why the plans of layers changed last, and what has come of changes; false while
// no plan is made by loads.
func (s *Snapshot) plans() (g group, byLoads bool) {
	g = group{key: "plans", title: "Last changes of plans", table: table{head: []string{"LAYER", "AGE", "REASON"}}}
	byLoad := slices.DeleteFunc(slices.Clone(s.Plans), func(p Planned) bool { return p.Policy == "" })
	slices.SortStableFunc(byLoad, func(a, b Planned) int { return cmp.Compare(a.AgeSeconds, b.AgeSeconds) })
	for _, p := range byLoad[:min(shownPlans, len(byLoad))] {
		g.table.add(strconv.Itoa(p.Layer), fmt.Sprintf("%.0f s", p.AgeSeconds), p.Reason)
	}
	helped, undone := s.sum(members.TrialsHelped), s.sum(members.TrialsUndone)
	g.brief = fmt.Sprintf("changes that helped: %.0f, undone: %.0f", helped, undone)
	if undone > helped {
		g.brief += "; scaling hurts here"
	}
	if doubted := s.doubted(); len(doubted) > 0 {
		g.brief += "; no hosts have computed the rows that these gates tell of, which count for nothing: " + strings.Join(doubted, ", ")
	}
	return g, len(byLoad) > 0
}

// doubted returns the gates that scalers have named, each with how many of its samples they refused.
func (s *Snapshot) doubted() (gates []string) {
	for _, m := range s.Members {
		for name, n := range m.Stats {
			if gate, ok := strings.CutPrefix(name, members.Doubted); ok && m.Service == "scaler" {
				gates = append(gates, fmt.Sprintf("%s (%.0f samples)", clean(gate), n))
			}
		}
	}
	slices.Sort(gates)
	return gates
}
