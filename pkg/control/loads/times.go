package loads

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TimesEvery is how often attention tells what layers have taken.
const TimesEvery = 250 * time.Millisecond

// Took is what a layer took in one step.
type Took struct {
	Rows, Dispatches int
	// Total is the layer forward time, and Messages the part of it that is neither gate nor
	// expert.
	Total, Messages time.Duration
}

// Times adds up what layers take, and has how many requests wait. It is safe for concurrent use.
type Times struct {
	model uint64
	host  string

	mu      sync.Mutex
	layers  map[int]*[claims.Classes]*pb.LayerTime
	waiting int // requests
	at      int // the layer whose samples tell of them
	told    int // of them, by the samples before
}

// NewTimes adds up for an attention replica of a model.
func NewTimes(model uint64, host string) *Times {
	return &Times{model: model, host: host, layers: map[int]*[claims.Classes]*pb.LayerTime{}}
}

// Add takes a layer of a step in. One that cannot be told, because it took longer than
// anybody believes, is left out.
func (t *Times) Add(layer int, took Took) {
	if took.Rows < 1 || took.Rows > claims.MaxStepRows || took.Total <= 0 || took.Total > time.Hour || took.Dispatches < 0 || took.Dispatches > claims.MaxDispatches {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	classes := t.layers[layer]
	if classes == nil {
		classes = &[claims.Classes]*pb.LayerTime{}
		t.layers[layer] = classes
	}
	at := claims.Class(float64(took.Rows))
	if classes[at] == nil {
		classes[at] = &pb.LayerTime{}
	}
	if classes[at].Steps < claims.MaxSteps {
		enter(classes[at], took)
	}
}

// Wait notes how many requests wait now, which samples of this layer tell.
func (t *Times) Wait(layer, requests int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.waiting = layer, min(max(0, requests), claims.MaxWaiting)
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
// were taken span ago, and while requests wait, or have just ended waiting, one that says so.
func (t *Times) Take(span time.Duration) (samples []*pb.LoadSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.layers[t.at] == nil && t.waiting+t.told > 0 {
		t.layers[t.at] = &[claims.Classes]*pb.LayerTime{}
	}
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
		if layer == t.at {
			s.Waiting = new(uint64(t.waiting))
		}
		samples = append(samples, s)
	}
	t.told = t.waiting
	t.layers = map[int]*[claims.Classes]*pb.LayerTime{}
	return samples
}
