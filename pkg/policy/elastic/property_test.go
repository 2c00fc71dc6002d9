package elastic

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// trial is a scaler with hosts that come and go, and loads that change.
type trial struct {
	core    *Core
	now     float64
	known   plan.Known
	number  uint64
	changed bool
	twin    *Core // observes the same
}

// reads is a device that takes a millisecond to read an expert of 10 bytes, and as long to
// compute 100 rows.
var reads = &cost.Device{Timer: cost.Roofline{Bandwidth: 1e4, Rate: 2e6, ElementBytes: 1}}

// drawTrial draws one whose hosts have room for the model, with one of them gone.
func drawTrial(t *rapid.T) *trial {
	s := printed()
	s.Scaling = rapid.SampledFrom([]string{"moeless", "reactive", "eplb", "moeless+", "moeless+lean"}).Draw(t, "scaling")
	if rapid.Bool().Draw(t, "profile") {
		s.Takes = reads
	}
	s.KeepAlive = float64(rapid.IntRange(0, 20).Draw(t, "keep-alive"))
	s.ZeroAfter = float64(rapid.IntRange(0, 20).Draw(t, "zero-after"))
	s.Worth = rapid.SampledFrom([]float64{0, 0.04}).Draw(t, "worth")
	s.MemoryCap = rapid.Uint64Range(0, 200).Draw(t, "cap")
	m := testModel(rapid.IntRange(1, 3).Draw(t, "layers"), rapid.IntRange(1, 8).Draw(t, "experts"))
	core, err := New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	y := &trial{core: core, known: plan.Known{Model: m.Model, Settings: plan.Settings{
		Policy: plan.Static, Replicas: 1, Grouping: rapid.SampledFrom(plan.Groupings).Draw(t, "grouping"),
	}}}
	hosts := rapid.IntRange(2, 5).Draw(t, "hosts")
	least := (len(m.MoELayers)*m.Experts + hosts - 2) / (hosts - 1)
	for i := range hosts {
		budget := uint64(0)
		if rapid.Bool().Draw(t, "bounded") {
			budget = uint64(10 * rapid.IntRange(least, 3*least).Draw(t, "slots"))
		}
		y.known.Hosts = append(y.known.Hosts, plan.Host{ID: fmt.Sprintf("host-%d", i), Budget: budget})
	}
	return y
}

// rows lets a layer's experts have rows for a while.
func (y *trial) rows(t *rapid.T) {
	step := &pb.StepLoad{Owner: "attention-a"}
	for e := range y.core.model.Experts {
		if n := rapid.Uint32Range(0, 1000).Draw(t, "rows"); n > 0 {
			step.Expert, step.Count, step.Rows = append(step.Expert, uint32(e)), append(step.Count, n), step.Rows+n
		}
	}
	if step.Rows == 0 {
		return
	}
	layer := rapid.SampledFrom(y.known.Model.MoELayers).Draw(t, "layer")
	for range rapid.IntRange(1, 30).Draw(t, "tenths") {
		y.now += 0.1
		y.number++
		s := &pb.LoadSample{
			Version: schemas.Version, Model: testHash, Host: "gate-a", Layer: uint32(layer), SpanMs: 10, Number: y.number,
			Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
		}
		if err := y.core.Observe(y.now, s); err != nil {
			t.Fatal(err)
		}
		if y.twin != nil {
			_ = y.twin.Observe(y.now, s) // as above
		}
	}
}

// decide carries a plan out.
func (y *trial) decide(t *rapid.T) []Verdict {
	before := y.known.InForce
	d, verdicts, err := y.core.Decide(y.now, y.known)
	if err != nil {
		t.Fatal(err)
	}
	y.changed = false
	y.known.InForce = map[int]*plan.Layer{}
	for i, lp := range d.Layers {
		checked, err := plan.Rules{MoELayers: y.known.Model.MoELayers, Experts: y.known.Model.Experts}.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		y.known.InForce[int(lp.Layer)] = checked
		changed := before[int(lp.Layer)] == nil || !plan.Same(before[int(lp.Layer)].LayerPlan, lp)
		y.changed = y.changed || changed
		if changed != (len(verdicts[i].Causes) > 0) || changed && lp.Reason == "" {
			t.Fatalf("changed %v, by %v: %s", changed, verdicts[i].Causes, lp.Reason)
		}
	}
	return verdicts
}

// conserved wants hosts to have all rows of the experts that are warm somewhere.
func (y *trial) conserved(t *rapid.T) {
	r := y.core.round(y.now, y.known)
	for _, w := range r.layers {
		want := 0.0
		for e, load := range w.loads {
			if w.old.count(e, warm) > 0 {
				want += load
			}
		}
		if got := sum(r.hostLoads(w.old, w.loads)); math.Abs(got-want) > 1e-6*want {
			t.Fatalf("layer %d: hosts have %v rows a second, experts %v", w.number, got, want)
		}
	}
}

// check looks at the plan in force.
func (y *trial) check(t *rapid.T, verdicts []Verdict) {
	used, s := map[string]uint64{}, y.core.s
	for _, v := range verdicts {
		experts := make([]map[string]pb.Want, y.known.Model.Experts)
		for _, f := range y.known.InForce[v.Layer].Functions {
			for _, e := range f.Experts {
				experts[e] = map[string]pb.Want{}
				for _, p := range f.Placements {
					used[p.Host] += 10
					experts[e][p.Host] = p.Want
				}
			}
		}
		extra := uint64(0)
		for e, on := range experts {
			n := map[pb.Want]int{}
			for _, want := range on {
				n[want]++
			}
			idle := y.now-y.core.layers[v.Layer].seen[e] > y.core.stays(v.Layer)
			if n[warm]+n[cold] == 0 || n[cold] > 0 && (n[warm] > 0 || n[cold] > 1 || !idle || !y.core.mode.toZero) {
				t.Fatalf("layer %d, expert %d: %v, idle %v", v.Layer, e, on, idle)
			}
			extra += uint64(max(0, len(on)-1)) // kept ones too
		}
		if extra*10 > s.MemoryCap {
			t.Fatalf("layer %d: %d replicas more, cap %d bytes", v.Layer, extra, s.MemoryCap)
		}
		if v.After.CV < 0 || math.IsNaN(v.After.CV) || !(v.After.Balancedness > 0 && v.After.Balancedness <= 1+1e-9) {
			t.Fatalf("%+v", v)
		}
	}
	for _, h := range y.known.Hosts {
		if h.Budget > 0 && used[h.ID] > h.Budget {
			t.Fatalf("host %s: %d bytes planned, %d are there", h.ID, used[h.ID], h.Budget)
		}
		delete(used, h.ID)
	}
	if len(used) > 0 {
		t.Fatalf("planned on hosts that are not here: %v", used)
	}
}

func TestPlansHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawTrial(t)
		all := y.known.Hosts
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			switch rapid.SampledFrom([]string{"rows", "rows", "wait", "gone", "back", "refused", "throttles"}).Draw(t, "what") {
			case "rows":
				y.rows(t)
			case "wait":
				y.now += float64(rapid.IntRange(1, 30).Draw(t, "seconds"))
			case "gone":
				i := rapid.IntRange(0, len(all)-1).Draw(t, "host")
				y.known.Hosts = append(append([]plan.Host(nil), all[:i]...), all[i+1:]...)
			case "back":
				y.known.Hosts = all
			case "throttles":
				for i := range all {
					all[i].Throttles = rapid.Bool().Draw(t, "throttles")
				}
				y.known.Hosts = all
			case "refused":
				y.core.Refused(y.now, "host-0", plan.FunctionID(0, []uint32{0}, plan.Routed))
			}
			verdicts := y.decide(t)
			y.check(t, verdicts)
			y.relieves(t, verdicts)
			y.conserved(t)
		}
		y.settles(t)
	})
}

// relieves wants an expert on throttling hosts alone only where no other host has room.
func (y *trial) relieves(t *rapid.T, verdicts []Verdict) {
	static := func(v Verdict) bool { return slices.Contains(v.Causes, byStatic) }
	if slices.ContainsFunc(verdicts, static) || len(y.core.refused) > 0 {
		return // the next decision does, or a host is full whatever it says
	}
	r := y.core.round(y.now, y.known)
	for _, w := range r.layers {
		for _, h := range w.relieved {
			r.hosts[h].used++
		}
	}
	for _, w := range r.layers {
		full, _, _ := r.read(w.in)
		left := r.cap(math.MaxInt32)
		for e := range full {
			left -= max(0, full.count(e, warm)-1)
		}
		for e := range full {
			on := full.having(e, warm)
			hot := func(h int) bool { return r.hosts[h].throttles }
			if len(on) == 0 || slices.ContainsFunc(on, func(h int) bool { return !hot(h) }) || left <= 0 {
				continue
			}
			if at := r.room(r.cool, make([]float64, len(r.hosts))); at >= 0 {
				t.Fatalf("layer %d, expert %d: alone on hosts that throttle, %s has room", w.number, e, r.hosts[at].id)
			}
		}
	}
}

// settles wants the plan to stay when nothing changes. What is under way may take
// some rounds: each makes the most loaded host's rows fewer.
func (y *trial) settles(t *rapid.T) {
	for range 20 {
		if y.decide(t); !y.changed {
			return
		}
	}
	t.Fatal("the plan does not settle")
}

// The same samples and the same hosts, in whatever order they are named, lead to
// the same plan.
func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawTrial(t)
		twin := *y
		twin.core, _ = New(y.core.s, y.core.model)
		y.twin = twin.core
		twin.known.Hosts = rapid.Permutation(y.known.Hosts).Draw(t, "order")
		for range 3 {
			y.rows(t)
			twin.now = y.now
			y.decide(t)
			twin.decide(t)
			for l, in := range y.known.InForce {
				if !plan.Same(in.LayerPlan, twin.known.InForce[l].LayerPlan) {
					t.Fatalf("%v\n%v", in.LayerPlan, twin.known.InForce[l].LayerPlan)
				}
			}
		}
	})
}
