package loads

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// AddFor is for how long an Adder adds up: a scaler decides less often.
	AddFor = 100 * time.Millisecond
	// mostParts ends an interval early: what is added up can be counted.
	mostParts = 1 << 10
)

// Adder stands before whoever sends samples away. Of each layer that a gate counts or a
// predictor foretells one sample an interval goes on: the interval's first microbatch as it
// was, and the sum of the others. All other samples go on at once. It is safe for concurrent
// use.
type Adder struct {
	to func(*pb.LoadSample)

	mu     sync.Mutex
	sums   map[stream]*sum // of the interval
	began  time.Time       // the interval
	timer  *time.Timer     // ends it; nil: there is none
	closed bool
}

// stream is what one replica tells of a layer.
type stream struct {
	model   uint64
	replica string
	source  pb.LoadSource
	layer   uint32
}

// NewAdder lets samples go on to a function that does not wait.
func NewAdder(to func(*pb.LoadSample)) *Adder { return &Adder{to: to, sums: map[stream]*sum{}} }

// Send takes a sample over.
func (a *Adder) Send(s *pb.LoadSample) {
	if len(s.Steps) == 0 {
		a.to(s)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.to(s)
		return
	}
	if a.timer == nil {
		a.began, a.timer = time.Now(), time.AfterFunc(AddFor, a.Flush)
	}
	of := stream{s.Model, s.Host, s.Source, s.Layer}
	if a.sums[of] == nil {
		a.sums[of] = &sum{}
	}
	for _, step := range s.Steps {
		if a.sums[of].add(step) >= mostParts {
			a.flush()
			a.sums[of] = &sum{}
		}
	}
}

// Flush ends the interval.
func (a *Adder) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	a.flush()
}

// Close ends the interval; what comes later goes on at once.
func (a *Adder) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.Flush()
}

// flush lets go on what there is, and begins the next interval; a.mu is held.
func (a *Adder) flush() {
	span := uint32(max(1, time.Since(a.began).Milliseconds()))
	for of, all := range a.sums {
		if steps := all.steps(); len(steps) > 0 {
			a.to(&pb.LoadSample{
				Version: schemas.Version, Model: of.model, Host: of.replica, Layer: of.layer, SpanMs: span, Source: of.source, Steps: steps,
			})
		}
	}
	clear(a.sums)
	a.began = time.Now()
}

// sum is what an interval had of a stream.
type sum struct {
	whole []*pb.StepLoad      // those that are told as they were
	added map[uint32]*addends // by distance
}

// addends are the microbatches of one distance after the first.
type addends struct {
	all  *pb.StepLoad
	rows []uint32 // of each expert
}

// add takes a microbatch in, and says of how many parts its sum is.
func (s *sum) add(step *pb.StepLoad) (parts uint32) {
	to, begun := s.added[step.Distance]
	if !begun || step.Probe || len(step.Units)+len(step.Served) > 0 {
		s.whole = append(s.whole, step)
		if !begun && !step.Probe {
			if s.added == nil {
				s.added = map[uint32]*addends{}
			}
			s.added[step.Distance] = &addends{all: &pb.StepLoad{Owner: step.Owner, Distance: step.Distance}}
		}
		return uint32(len(s.whole))
	}
	to.all.Parts += max(1, step.Parts)
	to.all.Rows += step.Rows
	to.all.PrefillRows += step.PrefillRows
	to.all.PlanVersion = max(to.all.PlanVersion, step.PlanVersion)
	for i, e := range step.Expert {
		if more := int(e) + 1 - len(to.rows); more > 0 {
			to.rows = append(to.rows, make([]uint32, more)...)
		}
		to.rows[e] += step.Count[i]
	}
	return to.all.Parts
}

// steps returns what is told of an interval.
func (s *sum) steps() []*pb.StepLoad {
	all := s.whole
	for _, distance := range slices.Sorted(maps.Keys(s.added)) {
		of := s.added[distance]
		if of.all.Parts == 0 {
			continue
		}
		for e, n := range of.rows {
			if n > 0 {
				of.all.Expert, of.all.Count = append(of.all.Expert, uint32(e)), append(of.all.Count, n)
			}
		}
		all = append(all, of.all)
	}
	return all
}
