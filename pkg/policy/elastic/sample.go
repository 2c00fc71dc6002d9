package elastic

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SampleError says why a sample counts for nothing, and what to do about it.
type SampleError struct {
	// Kind is one of few words, for counting.
	Kind string
	Err  error
}

// Error says what is wrong, and what to do about samples of that kind.
func (e *SampleError) Error() string { return fmt.Sprintf("%v; %s", e.Err, cures[e.Kind]) }

// Unwrap is what is wrong.
func (e *SampleError) Unwrap() error { return e.Err }

// The kinds of samples that are refused.
const (
	BadModel  = "model"  // of another model or release
	BadLayer  = "layer"  // of a layer without experts
	BadSender = "sender" // of nobody, or of a host, gate or attention replica that is not here
	BadNumber = "number" // not numbered
	BadMemory = "memory" // of a host that holds more than it may
	BadCounts = "counts" // of rows that cannot be, or do not add up
	BadRows   = "rows"   // of a gate, of rows that no host has computed
	TooMany   = "senders"
)

// Kinds are all of them.
var Kinds = []string{BadModel, BadLayer, BadSender, BadNumber, BadMemory, BadCounts, BadRows, TooMany}

// cures say what to do about each.
var cures = map[string]string{
	BadModel:  "give all services the same --model and release, and each model a --kafka-topic of its own",
	BadLayer:  "give all services the same --model",
	BadSender: "nothing is to be done if it has just come or gone; else look who may write to the topic",
	BadNumber: "look who may write to the topic",
	BadMemory: "restart that host; until then the memory counts that it announces",
	BadRows:   "look who may write to the topic, and whether that gate is of this release",
	BadCounts: "give all services the same release, and look who may write to the topic",
	TooMany:   "look who may write to the topic",
}

// check refuses what no replica of this model sends.
func (c *Core) check(s *pb.LoadSample) error {
	err := c.limits.Check(s)
	if err != nil {
		return &SampleError{Kind: c.kind(s), Err: err}
	}
	switch {
	case s.Number == 0:
		return &SampleError{BadNumber, fmt.Errorf("%w: %s does not number its own", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_UNSPECIFIED && c.hosts != nil && !c.hosts[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: host %s is not among the members", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_ATTENTION && c.attention != nil && !c.attention[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: attention replica %s is not among the members", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_GATE && len(c.gates) > 0 && !c.gates[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: gate %s is not among the members", claims.ErrSample, s.Host)}
	}
	return nil
}

// kind says what is wrong with a sample that is refused.
func (c *Core) kind(s *pb.LoadSample) string {
	switch {
	case s.GetVersion() != schemas.Version || s.GetModel() != c.model.Hash:
		return BadModel
	case !schemas.IsReplicaID(s.Host):
		return BadSender
	case c.layers[int(s.Layer)] == nil:
		return BadLayer
	case s.Memory.GetUsedBytes() > s.Memory.GetBudgetBytes() && s.Memory.GetBudgetBytes() > 0:
		return BadMemory
	}
	return BadCounts
}

// limits are what samples of a model may claim.
func (m Model) limits() claims.Limits {
	last := 0
	for _, l := range m.MoELayers {
		last = max(last, l)
	}
	l := claims.Limits{Model: m.Hash, Layers: last + 1, Experts: m.Experts, TopK: m.TopK, MoE: make([]bool, last+1)}
	for _, number := range m.MoELayers {
		l.MoE[number] = true
	}
	return l
}

// window counts rows by expert, those of long ago less and less. Where seconds is
// infinite, all rows since its beginning count alike.
type window struct {
	seconds float64
	rows    []float64 // each times e^((when−base)/seconds)
	base    float64
	began   float64
	last    float64 // of the newest rows
	any     bool
}

func newWindow(experts int, seconds float64) *window {
	return &window{seconds: seconds, rows: make([]float64, experts)}
}

// maxExponent is when weights are scaled down anew.
const maxExponent = 50

// advance makes room for rows of now.
func (w *window) advance(now float64) {
	if !w.any {
		w.any, w.began, w.base = true, now, now
	}
	w.last = now
	if x := (now - w.base) / w.seconds; x > maxExponent {
		for e := range w.rows {
			w.rows[e] *= math.Exp(-x)
		}
		w.base = now
	}
}

// weight is what a row of now counts; advance comes before.
func (w *window) weight(now float64) float64 { return math.Exp((now - w.base) / w.seconds) }

// addAll takes a step's rows in.
func (w *window) addAll(now float64, experts, counts []uint32) {
	w.advance(now)
	weight := w.weight(now)
	for i, e := range experts {
		w.rows[e] += float64(counts[i]) * weight
	}
}

// leastSpan bounds rates that are of hardly any time.
const leastSpan = 0.25

// rates are the rows of each expert in a second, nil if there never were any.
func (w *window) rates(now float64) []float64 {
	if !w.any {
		return nil
	}
	passed := max(leastSpan, now-w.began)
	if !math.IsInf(w.seconds, 1) {
		passed = w.seconds * -math.Expm1(-passed/w.seconds)
	}
	factor := math.Exp(-(now-w.base)/w.seconds) / passed
	rates := make([]float64, len(w.rows))
	for e, n := range w.rows {
		rates[e] = n * factor
	}
	return rates
}

func (w *window) since(now float64) float64 {
	if !w.any {
		return math.Inf(1)
	}
	return now - w.last
}

// mean is what something takes, by the newest measurements most.
type mean struct{ sum, weight float64 }

// forget is what a measurement still weighs after another one of weight 1.
const forget = 0.9

func (m *mean) add(seconds float64) { m.sum, m.weight = m.sum*forget+seconds, m.weight*forget+1 }

func (m mean) or(assumed float64) float64 {
	if m.weight == 0 {
		return assumed
	}
	return m.sum / m.weight
}

// numbers tells samples of one sender and layer that were taken from new ones.
type numbers struct {
	last   uint64
	before uint64 // bit i: last−1−i was taken
}

// late is how far behind the last one a sample may come.
const late = 64

// take reports whether a number is new, and how many it passes over.
func (n *numbers) take(number uint64) (fresh bool, missing uint64) {
	switch {
	case number > n.last:
		ahead := number - n.last
		if n.last > 0 {
			missing = ahead - 1
			n.before = n.before<<ahead | 1<<(ahead-1) // 0 for shifts beyond 64
		}
		n.last = number
		return true, missing
	case number == n.last || n.last-number > late:
		return false, 0
	}
	bit := uint64(1) << (n.last - number - 1)
	fresh = n.before&bit == 0
	n.before |= bit
	return fresh, 0
}
