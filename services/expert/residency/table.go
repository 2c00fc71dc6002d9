package residency

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// table is the functions of a host, what plans want of them, and what the host has said of
// them. Whoever calls its methods, or reads its fields or those of a function that it
// guards, holds its lock. None of its methods waits.
type table struct {
	sync.Mutex
	*common
	// start begins a goroutine that keeps a function until there is nothing to do.
	start func(*Function)

	functions map[string]*Function        // by id, from when they are wanted until they are gone
	plans     plans                       // that the functions follow
	said      map[int][]*pb.FunctionState // of each layer, what was announced
	loans     loans                       // dispatches that wait for room
	stopped   bool                        // no keeper begins any more
	leaving   bool                        // nothing rests any more
	serves    bool
	serving   chan struct{} // closed when it does

	began, counted time.Time // of the first plan, and of what was loaded
	loaded         Progress
	// coldStarts of functions, and the time that rows have waited for them.
	coldStarts uint64
	coldWait   time.Duration
}

func newTable(c *common) *table {
	return &table{
		common: c, functions: map[string]*Function{}, plans: newPlans(), said: map[int][]*pb.FunctionState{}, serving: make(chan struct{}),
		loans: loans{room: make(chan struct{}, 1)},
	}
}

// kick lets a function's keeper look at what is wanted.
func (t *table) kick(f *Function) {
	pause.Wake(f.wake)
	if !f.running && !t.stopped {
		f.running = true
		t.start(f)
	}
}

// retryRefused lets functions try again whose memory may be free now.
func (t *table) retryRefused() {
	for _, f := range t.functions {
		if f.state.Phase == isRefused || f.state.Phase == isWarming {
			t.kick(f)
		}
	}
}

func (t *table) say(f *Function, state *pb.FunctionState) {
	f.state = state
	t.announce(f.layer)
}

// warmedUp says that a function computes what comes.
func (t *table) warmedUp(f *Function) {
	t.say(f, f.is(isWarm, ""))
	if f.start != nil && !f.start.warm {
		f.start.warm = true
		t.Metrics.Hosts.ColdStart.Observe(time.Since(f.start.began).Seconds())
	}
	f.endWaits()
}

// announce tells the others of a layer's functions here, and notes when the host
// has begun to serve what is wanted of it.
func (t *table) announce(layer int) {
	r := &pb.HostLayer{Host: t.Host, Layer: uint32(layer)}
	for _, f := range t.functions {
		if f.layer == layer {
			r.Functions = append(r.Functions, f.shown())
		}
	}
	slices.SortFunc(r.Functions, func(a, b *pb.FunctionState) int { return cmp.Compare(a.Id, b.Id) })
	if said := t.said[layer]; !slices.EqualFunc(said, r.Functions, func(a, b *pb.FunctionState) bool { return proto.Equal(a, b) }) {
		t.said[layer] = r.Functions
		t.network.Announce(r)
	}
	if !t.serves && t.begun() {
		t.serves = true
		close(t.serving)
	}
}

// begun reports whether each layer has a plan, and each function that is wanted here
// is as it is wanted, or refused.
func (t *table) begun() bool {
	if t.plans.layers() < t.Layers {
		return false
	}
	for _, f := range t.functions {
		if f.lacks() {
			return false
		}
	}
	return true
}

// plans are the newest of each layer.
type plans struct {
	newest  map[int]*plan.Layer
	warm    map[int]int // functions of each that it wants warm here
	adopted int64       // plans of layers so far
}

func newPlans() plans { return plans{newest: map[int]*plan.Layer{}, warm: map[int]int{}} }

// adopt takes the newest plan of a layer. It returns how many functions all plans want warm
// on a host.
func (p *plans) adopt(l *plan.Layer, host string) (wantedWarm int) {
	layer, n := int(l.Layer), 0
	for _, f := range l.Functions {
		if plan.WantOn(f, host) == warm {
			n++
		}
	}
	p.adopted++
	p.newest[layer], p.warm[layer] = l, n
	for _, of := range p.warm {
		wantedWarm += of
	}
	return wantedWarm
}

func (p *plans) layers() int { return len(p.newest) }

func (p *plans) function(layer int, id string) *pb.Function { return p.newest[layer].Function(id) }

// places reports whether the layer's plan wants a function's rows taken on whatever host.
func (p *plans) places(f *Function) bool {
	in := p.function(f.layer, f.spec.Id)
	return in != nil && slices.ContainsFunc(in.Placements, func(p *pb.Placement) bool { return p.Want != kept })
}

// ByPhase counts the host's functions by their phases, as the metrics name them; "kept" are
// warm ones that take no rows.
func (r *Residency) ByPhase() map[string]float64 {
	out := map[string]float64{"kept": 0}
	for _, name := range phaseNames {
		out[name] = 0
	}
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		out[f.phase()]++
	}
	return out
}

// ColdStarts is how often rows have found functions cold, and for how long rows have waited
// for such ones, added up.
func (r *Residency) ColdStarts() (n uint64, waited time.Duration) {
	r.table.Lock()
	defer r.table.Unlock()
	return r.table.coldStarts, r.table.coldWait
}

// Loads tells of the host's functions, by layer, what they have computed since it was last
// called.
func (r *Residency) Loads() map[uint32][]*pb.FunctionLoad {
	out := map[uint32][]*pb.FunctionLoad{}
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		out[uint32(f.layer)] = append(out[uint32(f.layer)], f.tell())
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b *pb.FunctionLoad) int { return cmp.Compare(a.Id, b.Id) })
	}
	return out
}

// Remaining says in words which functions are wanted here and not warm yet, as far as there
// is a plan; empty: none.
func (r *Residency) Remaining() string {
	t := r.table
	t.Lock()
	defer t.Unlock()
	if have := t.plans.layers(); have < t.Layers {
		return fmt.Sprintf("%d of %d layers have a plan", have, t.Layers)
	}
	waiting, first := 0, (*Function)(nil)
	for _, f := range t.functions {
		if f.lacks() {
			if waiting++; first == nil || cmp.Or(cmp.Compare(f.layer, first.layer), cmp.Compare(f.spec.Id, first.spec.Id)) < 0 {
				first = f
			}
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d, among them function %s of layer %d; %s", waiting, len(t.functions), first.spec.Id, first.layer, t.progress(time.Now()))
}

// Progress is how far experts are that plans want loaded here.
type Progress struct {
	// Bytes of All are loaded, since the first plan came, For so long.
	Bytes, All int64
	For        time.Duration
}

// String has bytes, share and rate.
func (p Progress) String() string {
	rate := float64(p.Bytes) / max(p.For.Seconds(), 1e-3)
	return fmt.Sprintf("%d of %d bytes are loaded (%d %%, %.0f MB/s)", p.Bytes, p.All, 100*p.Bytes/max(p.All, 1), rate/1e6)
}

// Progress returns how far loads are.
func (r *Residency) Progress() Progress {
	r.table.Lock()
	defer r.table.Unlock()
	r.table.counted = time.Time{}
	return r.table.progress(time.Now())
}

// progressEvery is how often progress is counted: who waits for a host asks often, and experts are many.
const progressEvery = 500 * time.Millisecond

func (t *table) progress(now time.Time) Progress {
	if now.Sub(t.counted) < progressEvery {
		return t.loaded
	}
	p := Progress{For: now.Sub(t.began)}
	for _, f := range t.functions {
		if !f.loads() || f.spec.Kind == plan.United {
			continue
		}
		for _, e := range f.spec.Experts {
			id := forward.ExpertID{Layer: f.layer, Expert: int(e)}
			bytes, err := t.Device.Size(id)
			if err != nil {
				continue
			}
			p.All += bytes
			if t.Device.State(id).Phase == device.Warm {
				p.Bytes += bytes
			}
		}
	}
	t.counted, t.loaded = now, p
	return p
}

// Serves reports whether rows for an expert may come here.
func (r *Residency) Serves(layer, expert int) bool {
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		if f.layer == layer && f.spec.Kind != plan.United && f.want != nothing && f.want != kept && slices.Contains(f.spec.Experts, uint32(expert)) {
			return true
		}
	}
	return false
}

// Any reports whether the host has functions at all.
func (r *Residency) Any() bool {
	r.table.Lock()
	defer r.table.Unlock()
	return len(r.table.functions) > 0
}
