package loads

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrHint is wrapped by what is wrong with a hint.
var ErrHint = errors.New("hint")

const (
	// MaxHintBytes bounds a hint's encoding: what is larger is not even decoded.
	MaxHintBytes = 256 << 10
	// MaxHintLayers bounds the layers of a hint.
	MaxHintLayers = 512
	// MaxHintsAhead bounds the steps that one may look ahead.
	MaxHintsAhead = 16
)

// HintLimits are what a predictor may tell an expert host of the units that a step will ask
// for. A hint changes when weights move and never what is computed, so a bad one is refused
// and counted, and costs no more.
type HintLimits struct {
	Model   uint64
	Experts int
	MoE     []bool // which layers have experts
}

// Decode reads a hint of the model, and refuses everything else.
func (l HintLimits) Decode(body []byte) (*pb.Hint, error) {
	if len(body) > MaxHintBytes {
		return nil, fmt.Errorf("%w of %d bytes; at most %d are read", ErrHint, len(body), MaxHintBytes)
	}
	h := &pb.Hint{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, h); err != nil {
		return nil, fmt.Errorf("%w: decoding it: %w", ErrHint, err)
	}
	if err := l.check(h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHint, err)
	}
	return h, nil
}

func (l HintLimits) check(h *pb.Hint) error {
	switch {
	case h.Version != schemas.Version || h.Model != l.Model:
		return fmt.Errorf("of version %d and model %016x, want %d and %016x", h.Version, h.Model, schemas.Version, l.Model)
	case !schemas.IsReplicaID(h.Predictor) || !schemas.IsReplicaID(h.Owner):
		return fmt.Errorf("of predictor %.64q for steps of %.64q, which are not replicas' ids", h.Predictor, h.Owner)
	case uint64(h.Reached) > uint64(len(l.MoE)):
		return fmt.Errorf("of a step that has reached layer %d of %d", h.Reached-1, len(l.MoE))
	case len(h.Layers) == 0 || len(h.Layers) > MaxHintLayers:
		return fmt.Errorf("with %d layers, want 1 to %d", len(h.Layers), MaxHintLayers)
	}
	for _, layer := range h.Layers {
		if err := l.checkLayer(layer); err != nil {
			return fmt.Errorf("layer %d: %w", layer.GetLayer(), err)
		}
	}
	return nil
}

func (l HintLimits) checkLayer(h *pb.LayerHint) error {
	switch {
	case uint64(h.GetLayer()) >= uint64(len(l.MoE)) || !l.MoE[h.Layer]:
		return errors.New("it has no experts in this model")
	case uint64(h.Wanted) > uint64(len(h.Unit)):
		return fmt.Errorf("%d of %d units are wanted", h.Wanted, len(h.Unit))
	case h.StepsAhead > MaxHintsAhead:
		return fmt.Errorf("%d steps ahead, want at most %d", h.StepsAhead, MaxHintsAhead)
	case h.Kind != plan.Routed && h.Kind != plan.United:
		return fmt.Errorf("units of kind %d; known are %d (routed) and %d (united)", h.Kind, plan.Routed, plan.United)
	}
	if err := plan.CheckWay(h.Kind, h.Way, l.Experts); err != nil {
		return err
	}
	units := l.Experts
	if h.Kind == plan.United {
		units = plan.Groups(l.Experts, int(h.Way))
	}
	return checkUnits(h, units)
}

// checkUnits wants each unit once, and a probability for each.
func checkUnits(h *pb.LayerHint, units int) error {
	if n := len(h.Unit); n == 0 || n > units || len(h.Probability) != n {
		return fmt.Errorf("%d units of %d with %d probabilities", n, units, len(h.Probability))
	}
	seen := make([]bool, units)
	for i, u := range h.Unit {
		switch p := float64(h.Probability[i]); {
		case uint64(u) >= uint64(units):
			return fmt.Errorf("unit %d of %d", u, units)
		case seen[u]:
			return fmt.Errorf("unit %d is there twice", u)
		case math.IsNaN(p) || p < 0 || p > 1:
			return fmt.Errorf("unit %d has the probability %v", u, p)
		}
		seen[u] = true
	}
	return nil
}

// Bounds of what a Queue keeps.
const (
	queueHints = 256
	queueBytes = 1 << 20
)

// HintQueue keeps messages with hints until somebody uses them: a new one takes the place of the
// oldest. What fills it never waits. It is safe for concurrent use.
type HintQueue struct {
	note chan struct{}

	mu      sync.Mutex
	waiting [][]byte // oldest first
	bytes   int
}

// NewHintQueue returns an empty queue.
func NewHintQueue() *HintQueue { return &HintQueue{note: make(chan struct{}, 1)} }

// Note has a signal when there is something to take.
func (q *HintQueue) Note() <-chan struct{} { return q.note }

// Put takes a message in, and returns how many older ones were dropped for it.
func (q *HintQueue) Put(body []byte) (dropped int) {
	q.mu.Lock()
	q.waiting = append(q.waiting, body)
	q.bytes += len(body)
	for len(q.waiting) > 1 && (len(q.waiting) > queueHints || q.bytes > queueBytes) {
		q.next()
		dropped++
	}
	q.mu.Unlock()
	pause.Wake(q.note)
	return dropped
}

// Take returns the oldest message; false when none is left.
func (q *HintQueue) Take() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, false
	}
	return q.next(), true
}

// next removes the oldest; q.mu is held and there is one.
func (q *HintQueue) next() []byte {
	body := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.bytes -= len(body)
	return body
}
