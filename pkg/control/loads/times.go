package loads

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TimesEvery is how often attention tells what layers have taken.
const TimesEvery = 250 * time.Millisecond

const (
	// perOctave is how many classes of rows there are between a number and its double: a
	// layer's time grows with its rows, and is compared with that of as many.
	perOctave = 2
	// maxClasses are all classes of a layer.
	maxClasses = 64
	// maxDispatches is more than a step of a layer has.
	maxDispatches = 1 << 16
)

// Class is the class of so many rows of a step.
func Class(rows float64) int {
	return min(max(0, int(perOctave*math.Log2(max(1, rows)))), maxClasses-1)
}

// Took is what a layer took in one step.
type Took struct {
	Rows, Dispatches int
	// Total is the layer forward time, and Messages the part of it that is neither gate nor
	// expert.
	Total, Messages time.Duration
}

// Times adds up what layers take. It is safe for concurrent use.
type Times struct {
	model uint64
	host  string

	mu     sync.Mutex
	layers map[int]*[maxClasses]*pb.LayerTime
}

// NewTimes adds up for an attention replica of a model.
func NewTimes(model uint64, host string) *Times {
	return &Times{model: model, host: host, layers: map[int]*[maxClasses]*pb.LayerTime{}}
}

// Add takes a layer of a step in. One that cannot be told, because it took longer than
// anybody believes, is left out.
func (t *Times) Add(layer int, took Took) {
	if took.Rows < 1 || took.Rows > maxStepRows || took.Total <= 0 || took.Total > time.Hour || took.Dispatches < 0 || took.Dispatches > maxDispatches {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	classes := t.layers[layer]
	if classes == nil {
		classes = &[maxClasses]*pb.LayerTime{}
		t.layers[layer] = classes
	}
	at := Class(float64(took.Rows))
	if classes[at] == nil {
		classes[at] = &pb.LayerTime{}
	}
	if classes[at].Steps < MaxSteps {
		enter(classes[at], took)
	}
}

func enter(c *pb.LayerTime, took Took) {
	n := uint64(took.Dispatches)
	messages := uint64(min(max(0, took.Messages), took.Total))
	c.Steps++
	c.Rows += uint64(took.Rows)
	c.TotalNs += uint64(took.Total)
	c.MessageNs += messages
	c.Dispatches += n
	c.Squares += n * n
	c.Products += n * messages
}

// Take returns a sample of each layer that was added to since the samples before, which
// were taken span ago.
func (t *Times) Take(span time.Duration) (samples []*pb.LoadSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for layer, classes := range t.layers {
		s := &pb.LoadSample{
			Version: schemas.Version, Model: t.model, Host: t.host, Layer: uint32(layer), SpanMs: uint32(max(1, span.Milliseconds())),
			Source: pb.LoadSource_LOAD_SOURCE_ATTENTION,
		}
		for _, c := range classes {
			if c != nil {
				s.Times = append(s.Times, c)
			}
		}
		samples = append(samples, s)
	}
	t.layers = map[int]*[maxClasses]*pb.LayerTime{}
	return samples
}

// checkTimes wants what layers can take, and nothing of hosts or experts.
func checkTimes(s *pb.LoadSample) error {
	switch {
	case len(s.Expert)+len(s.Rows)+len(s.Total)+len(s.Functions)+len(s.Steps)+len(s.Units) > 0 || s.Memory != nil:
		return fmt.Errorf("%w: a %v tells of experts", ErrSample, s.Source)
	case len(s.Times) == 0 || len(s.Times) > maxClasses:
		return fmt.Errorf("%w: times of %d classes of rows, want 1 to %d", ErrSample, len(s.Times), maxClasses)
	}
	for _, c := range s.Times {
		if err := checkTime(c); err != nil {
			return err
		}
	}
	return nil
}

func checkTime(c *pb.LayerTime) error {
	switch {
	case c.GetSteps() == 0 || c.Steps > MaxSteps || c.Rows < c.Steps || c.Rows > c.Steps*maxStepRows:
		return fmt.Errorf("%w: a time of %d steps with %d rows, want 1 to %d steps with 1 to %d rows each", ErrSample, c.GetSteps(), c.GetRows(), MaxSteps, maxStepRows)
	case c.TotalNs == 0 || c.TotalNs > c.Steps*uint64(time.Hour) || c.MessageNs > c.TotalNs:
		return fmt.Errorf("%w: %d steps took %d ns, %d of it messages, want above 0, at most an hour each, and no more of messages", ErrSample, c.Steps, c.TotalNs, c.MessageNs)
	case c.Dispatches > c.Steps*maxDispatches || c.Squares > c.Dispatches*maxDispatches || float64(c.Products) > float64(c.MessageNs)*maxDispatches:
		return fmt.Errorf("%w: %d dispatches in %d steps, squares %d, products %d, which cannot be", ErrSample, c.Dispatches, c.Steps, c.Squares, c.Products)
	}
	return nil
}
