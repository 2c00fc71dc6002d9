package gate

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const width = 4

var shape = &wire.Shape{
	Identity: wire.Identity{Model: 7}, Hidden: width, Experts: 8, TopK: 2, MoE: []bool{true, false}, MaxRows: func() int { return 100 },
}

// hidden is rows whose numbers tell them apart.
func hidden(rows int) *pb.Hidden {
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = float32(i)
	}
	return &pb.Hidden{
		Key:    &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Rows: uint32(rows), Aggregator: "a"},
		Tensor: tensor.Encode(tensor.F32, x, width, nil),
		Phases: []*pb.PhaseRange{{Phase: pb.Phase_PHASE_PREFILL, Rows: uint32(rows)}},
	}
}

// layerOf is a plan of one layer whose experts are spread over hosts.
func layerOf(t *rapid.T, experts int, grouping plan.Grouping) *plan.Routes {
	d, err := static.Plan(plan.Known{
		Model:    plan.Model{MoELayers: []int{0}, Experts: experts, ExpertBytes: 1},
		Settings: plan.Settings{Grouping: grouping, Replicas: 2},
		Hosts:    []plan.Host{{ID: "a"}, {ID: "b"}, {ID: "c"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return routesOf(t, d.Layers[0], experts)
}

// routesOf uses the functions of layer 0's plan; all are warm.
func routesOf(t interface{ Fatal(...any) }, lp *pb.LayerPlan, experts int) *plan.Routes {
	l, err := plan.Rules{MoELayers: []int{0}, Experts: experts}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	return l.Next(nil, func(string) plan.Replicas { return plan.Replicas{Serving: []string{"a"}} })
}

func drawRoutes(t *rapid.T, rows, k, experts int) *forward.Routes {
	r := &forward.Routes{K: k}
	for range rows {
		all := rapid.Permutation(slices.Collect(func(yield func(int32) bool) {
			for e := range int32(experts) {
				if !yield(e) {
					return
				}
			}
		})).Draw(t, "experts")
		r.Expert = append(r.Expert, all[:k]...)
		for range k {
			r.Weight = append(r.Weight, rapid.Float32Range(0, 1).Draw(t, "weight"))
		}
	}
	return r
}

// Every (row, slot) is in exactly one message: its function's, with its
// expert, its weight and its row's bytes.
func TestSplit(t *testing.T) {
	s := newSplitter(width)
	rapid.Check(t, func(t *rapid.T) {
		experts := rapid.IntRange(1, 8).Draw(t, "experts")
		rows, k := rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, experts).Draw(t, "k")
		layer := layerOf(t, experts, rapid.SampledFrom([]plan.Grouping{plan.ByHost, plan.ByExpert}).Draw(t, "grouping"))
		parts := rapid.IntRange(0, 4).Draw(t, "parts")
		h, routes := hidden(rows), drawRoutes(t, rows, k, experts)
		left := leaveOut(t, routes)
		seen := map[uint32]bool{}
		messages, asked := map[string][]int{}, map[string]int{}
		for _, d := range s.split(h, routes, layer, func(f int) ways { asked[layer.Targets[f].Id]++; return ways{parts: parts} }) {
			messages[d.function] = append(messages[d.function], int(d.Tensor.Rows))
			checkDispatch(t, d, h, routes, layer)
			checkAwaits(t, d.Awaits, routes, left)
			for _, place := range d.Place {
				if seen[place] {
					t.Fatalf("place %d is in two messages", place)
				}
				seen[place] = true
			}
		}
		if len(seen) != rows*k-left {
			t.Fatalf("%d of %d routed rows, %d are left out", len(seen), rows*k, left)
		}
		for f, shares := range messages {
			if n := len(shares); n > max(1, parts) || asked[f] != 1 {
				t.Fatalf("%d messages for function %s, %d replicas counted %d times", n, f, parts, asked[f])
			}
			if slices.Max(shares)-slices.Min(shares) > 1 || len(shares) < parts && slices.Max(shares) > 1 {
				t.Fatalf("function %s is split %v among %d replicas", f, shares, parts)
			}
		}
	})
}

// leaveOut has nobody compute some slots, and says how many.
func leaveOut(t *rapid.T, r *forward.Routes) (left int) {
	if rapid.Bool().Draw(t, "all") {
		return 0
	}
	for at := range r.Expert {
		if rapid.Bool().Draw(t, "none") {
			r.Expert[at] = forward.NoExpert
			left++
		}
	}
	return left
}

// checkAwaits wants what is dispatched to be awaited, and not to be said if it is all.
func checkAwaits(t *rapid.T, awaits wire.Awaits, r *forward.Routes, left int) {
	if left == 0 && len(awaits) != 0 {
		t.Fatalf("all are dispatched, and %v are awaited", awaits)
	}
	for at, e := range r.Expert {
		if awaits.Has(at) != (e != forward.NoExpert) {
			t.Fatalf("place %d has expert %d, awaited %v", at, e, awaits.Has(at))
		}
	}
}

// A group of which nothing is dispatched is answered with zeros.
func TestNothingDispatched(t *testing.T) {
	h := hidden(3)
	routes := &forward.Routes{K: 1, Expert: []int32{-1, -1, -1}, Weight: make([]float32, 3)}
	if out := newSplitter(width).split(h, routes, &plan.Routes{}, nil); len(out) != 0 {
		t.Errorf("%d messages", len(out))
	}
	x := noise(3 * width)
	b := zeros(tensor.BF16, h.Key, width)
	if err := tensor.Decode(x, b.Tensor, width); err != nil || b.Key != h.Key {
		t.Fatalf("key %v, %v", b.Key, err)
	}
	if slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
		t.Errorf("%v", x)
	}
}

func noise(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i + 1)
	}
	return x
}

func checkDispatch(t *rapid.T, d outgoing, h *pb.Hidden, routes *forward.Routes, layer *plan.Routes) {
	if d.Key != h.Key {
		t.Fatalf("key %v", d.Key)
	}
	n, err := tensor.Rows(d.Tensor, width)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, n*width)
	if err := tensor.Decode(x, d.Tensor, width); err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{} // token rows
	for i, at := range d.Place {
		row := int(at) / routes.K
		used[row] = true
		if d.Expert[i] != uint32(routes.Expert[at]) || d.Weight[i] != routes.Weight[at] {
			t.Fatalf("place %d went to expert %d", at, d.Expert[i])
		}
		if f := layer.Targets[layer.Of(routes.Expert[at])]; f.Id != d.function {
			t.Fatalf("expert %d is in function %s, sent to %s", d.Expert[i], f.Id, d.function)
		}
		src := (len(used) - 1) * width
		if src >= len(x) || x[src] != float32(row*width) || x[src+width-1] != float32(row*width+width-1) {
			t.Fatalf("row %d is not the tensor's row %d", row, len(used)-1)
		}
	}
	if len(used) != n {
		t.Fatalf("%d rows are sent, %d used", n, len(used))
	}
}

// A message with all rows shares the tensor: one replica, one function.
func TestSplitSharesTheTensor(t *testing.T) {
	to := routesOf(t, &pb.LayerPlan{Functions: []*pb.Function{plan.Function(0, []uint32{0}, "a")}}, 1)
	h := hidden(3)
	routes := &forward.Routes{K: 1, Expert: []int32{0, 0, 0}, Weight: []float32{1, 1, 1}}
	out := newSplitter(width).split(h, routes, to, func(int) ways { return ways{parts: 1} })
	if len(out) != 1 || out[0].Tensor != h.Tensor {
		t.Errorf("%d messages", len(out))
	}
}

func TestDecode(t *testing.T) {
	for name, change := range map[string]func(*pb.Hidden){
		"no key":        func(h *pb.Hidden) { h.Key = nil },
		"no tensor":     func(h *pb.Hidden) { h.Tensor = nil },
		"fewer rows":    func(h *pb.Hidden) { h.Key.Rows = 1 },
		"more rows":     func(h *pb.Hidden) { h.Key.Rows = 3 },
		"another model": func(h *pb.Hidden) { h.Key.Model = 8 },
		"no experts":    func(h *pb.Hidden) { h.Key.Layer = 1 },
		"no phases":     func(h *pb.Hidden) { h.Phases = nil },
		"many phases":   func(h *pb.Hidden) { h.Phases = append(h.Phases, h.Phases...) },
		"huge phase":    func(h *pb.Hidden) { h.Phases[0].Rows = 1<<32 - 1 },
		"empty phase":   func(h *pb.Hidden) { h.Phases = append(h.Phases, &pb.PhaseRange{Phase: 2}) },
		"no such phase": func(h *pb.Hidden) { h.Phases[0].Phase = 7 },
	} {
		h := hidden(2)
		change(h)
		_, err := decode(shape, h, nil)
		var mismatch *wire.IdentityError
		if !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	buf := make([]float32, 100)
	x, err := decode(shape, hidden(2), buf)
	if err != nil || len(x) != 2*width || x[5] != 5 || &x[0] != &buf[0] {
		t.Errorf("%v, %v", x, err)
	}
}

// Bytes from outside are rows or an error.
func FuzzDecode(f *testing.F) {
	for rows := range 3 {
		body, err := proto.Marshal(hidden(rows))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := &pb.Hidden{}
		if proto.Unmarshal(body, h) != nil {
			return
		}
		x, err := decode(shape, h, nil)
		if err == nil && (len(x) == 0 || len(x) != int(h.Key.Rows)*width) {
			t.Errorf("%d numbers for %d rows", len(x), h.Key.Rows)
		}
		if err != nil && fmt.Sprint(err) == "" {
			t.Error("an error that says nothing")
		}
	})
}

// A dispatch is of prefill if one of its rows is.
func TestMarkPrefill(t *testing.T) {
	decode, prefill := pb.Phase_PHASE_DECODE, pb.Phase_PHASE_PREFILL
	for _, tc := range []struct {
		name   string
		phases []*pb.PhaseRange
		want   bool
	}{
		{"decode", []*pb.PhaseRange{{Phase: decode, Rows: 9}}, false},
		{"prefill", []*pb.PhaseRange{{Phase: prefill, Rows: 9}}, true},
		{"others before", []*pb.PhaseRange{{Phase: prefill, Rows: 2}, {Phase: decode, Rows: 7}}, false},
		{"others behind", []*pb.PhaseRange{{Phase: decode, Rows: 6}, {Phase: prefill, Rows: 3}}, false},
		{"the last row", []*pb.PhaseRange{{Phase: decode, Rows: 5}, {Phase: prefill, Rows: 4}}, true},
	} {
		all := []outgoing{{Dispatch: &pb.Dispatch{Place: []uint32{4, 11}}}} // rows 2 and 5
		markPrefill(tc.phases, 2, all)
		if all[0].Prefill != tc.want {
			t.Errorf("%s: %v", tc.name, all[0].Prefill)
		}
	}
}
