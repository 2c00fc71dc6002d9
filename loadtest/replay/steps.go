package replay

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Step is one pass of a microbatch through the layers.
type Step struct {
	Number uint64
	At     time.Duration // since the run's beginning
	Took   time.Duration // from its beginning to the end
	Behind time.Duration // of that: behind its last layer
	Rows   int
	Parts  []ledger.Part
	Layers []Layer // those with experts, in their order
}

// Layer is a layer of a step.
type Layer struct {
	ledger.Layer
	Loads   []uint32 // routed rows of each expert
	Version uint64   // of the layer's plan that they went by
}

// recorder joins what attention tells of a step with what gates tell of its rows. It
// goes by the numbers of steps, so there is to be one attention replica.
type recorder struct {
	layers  map[int]int // index among the layers with experts
	experts int
	topK    int

	mu    sync.Mutex
	began time.Time
	steps map[uint64]*Step
	heard map[uint64]bool // of these, attention has told
	since []uint64        // routed rows of each layer's experts since taken
	hosts map[string]heardHost
	held  float64 // GB·s of experts in hosts' memory when the run began
}

// heardHost is what a host said last, and when that was heard.
type heardHost struct {
	*pb.HostLoad
	at time.Time
}

// gigabyteSeconds are those of a host's meter, as of now: what it holds it has held since.
func (h heardHost) gigabyteSeconds(now time.Time) float64 {
	u := h.GetUse()
	return u.GetLoadingGbS() + u.GetKeptGbS() + u.GetServingGbS() + float64(h.UsedBytes)/1e9*max(0, now.Sub(h.at).Seconds())
}

func newRecorder(m *model.Model) *recorder {
	r := &recorder{
		layers: map[int]int{}, experts: m.Spec.Experts, topK: m.Spec.TopK,
		steps: map[uint64]*Step{}, heard: map[uint64]bool{}, hosts: map[string]heardHost{},
	}
	for l, spec := range m.Spec.Layer {
		if spec.MoE {
			r.layers[l] = len(r.layers)
		}
	}
	r.since = make([]uint64, len(r.layers)*r.experts)
	return r
}

// begin forgets what was before.
func (r *recorder) begin(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.held = at, r.gigabyteSeconds(at)
	clear(r.steps)
	clear(r.heard)
	clear(r.since)
}

// of is a step by its number; r.mu is held.
func (r *recorder) of(number uint64) *Step {
	s := r.steps[number]
	if s == nil {
		s = &Step{Number: number, Layers: make([]Layer, len(r.layers))}
		for i := range s.Layers {
			s.Layers[i].Loads = make([]uint32, r.experts)
		}
		r.steps[number] = s
	}
	return s
}

// step takes the times of a step.
func (r *recorder) step(t *ledger.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Began.Before(r.began) {
		return
	}
	s := r.of(t.Number)
	s.At, s.Rows, s.Took, s.Parts = t.Began.Sub(r.began), t.Rows, time.Since(t.Began), t.Parts
	s.Behind = t.Own[forward.Head] + t.Own[forward.Sampling]
	r.heard[t.Number] = true
	for _, l := range t.Layers {
		s.Layers[r.layers[l.Layer]].Layer = l
	}
}

// Send takes a sample of loads.
func (r *recorder) Send(s *pb.LoadSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s.Source {
	case pb.LoadSource_LOAD_SOURCE_GATE:
		for _, step := range s.Steps {
			r.count(r.layers[int(s.Layer)], step)
		}
	case pb.LoadSource_LOAD_SOURCE_UNSPECIFIED:
		if s.Memory != nil {
			r.hear(s, time.Now())
		}
	}
}

func (r *recorder) count(layer int, s *pb.StepLoad) {
	l := &r.of(s.Step).Layers[layer]
	l.Version = s.PlanVersion
	for i, e := range s.Expert {
		l.Loads[e] += s.Count[i]
		r.since[layer*r.experts+int(e)] += uint64(s.Count[i])
	}
}

// hear notes what a host says. One that is heard for the first time has held since the run
// began what it holds now; r.mu is held.
func (r *recorder) hear(s *pb.LoadSample, now time.Time) {
	h := heardHost{s.Memory, now}
	if _, known := r.hosts[s.Host]; !known && !r.began.IsZero() {
		since := float64(h.UsedBytes) / 1e9 * h.at.Sub(r.began).Seconds()
		r.held += max(0, h.gigabyteSeconds(h.at)-since)
	}
	r.hosts[s.Host] = h
}

// gigabyteSeconds are those of all hosts' meters; r.mu is held.
func (r *recorder) gigabyteSeconds(now time.Time) (sum float64) {
	for _, h := range r.hosts {
		sum += h.gigabyteSeconds(now)
	}
	return sum
}

// take returns the routed rows since it was called last, by layer and expert, and the GB·s
// of experts that hosts have had since the run began.
func (r *recorder) take() (rows []uint64, held float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows = slices.Clone(r.since)
	clear(r.since)
	return rows, r.gigabyteSeconds(time.Now()) - r.held
}

// coldStarts counts functions that rows found cold.
func (r *recorder) coldStarts() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		n += h.ColdStarts
	}
	return n
}

// result is the steps of which everything is known, how many others there are, and all that
// were made.
func (r *recorder) result() (whole []Step, partial int, made []Scripted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var heard []*Step
	for _, number := range slices.Sorted(maps.Keys(r.steps)) {
		s := r.steps[number]
		if r.heard[number] {
			heard = append(heard, s)
		}
		if r.heard[number] && s.whole(r.topK) {
			whole = append(whole, *s)
		} else {
			partial++
		}
	}
	return whole, partial, scripted(heard)
}

// whole reports whether the loads of all layers add up.
func (s *Step) whole(topK int) bool {
	for i := range s.Layers {
		sum := 0
		for _, n := range s.Layers[i].Loads {
			sum += int(n)
		}
		if sum != s.Rows*topK {
			return false
		}
	}
	return true
}
