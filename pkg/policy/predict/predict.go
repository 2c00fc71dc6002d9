package predict

import "fmt"

// Predictor estimates loads. Predict may be called by several goroutines.
type Predictor interface {
	// Method is one of the names below.
	Method() string
	// Distance is how many layers ahead it predicts.
	Distance() int
	// Target is the layer whose loads follow from the gate inputs of layer, and
	// whether there is one.
	Target(layer int) (target int, ok bool)
	// Predict fills load (E) with the routed rows that each expert of the target
	// will probably get, for x (R, D), the gate inputs of layer. They sum to R·k.
	// It is false, and load is left alone, where Target has none.
	Predict(layer int, x []float32, rows int, load []float64) bool
	// Bytes is the memory of the predictor's weights.
	Bytes() int64
}

// Ranker is a Predictor that ranks experts for each row.
type Ranker interface {
	Predictor
	// Scores fills scores (R, E): the higher, the likelier the row's expert.
	Scores(layer int, x []float32, rows int, scores []float32) bool
}

// The names of methods.
const (
	MethodMoEless = "moeless"
	MethodReused  = "reused"
	MethodProMoE  = "promoe"
	MethodHistory = "history"
	MethodOracle  = "oracle"
)

// Gates are the gates of a model.
type Gates struct {
	Hidden, Experts, TopK int // D, E, k
	// Layers are the gates' weights (E, D), row-major; nil is a layer without experts.
	Layers [][]float32
}

// Check says what does not fit together.
func (g Gates) Check() error {
	if g.Hidden < 1 || g.TopK < 1 || g.TopK > g.Experts {
		return fmt.Errorf("gates have %d inputs, %d experts and choose %d; each must be 1 or more, and no more chosen than there are", g.Hidden, g.Experts, g.TopK)
	}
	for l, w := range g.Layers {
		if w != nil && len(w) != g.Experts*g.Hidden {
			return fmt.Errorf("the gate of layer %d has %d weights; (%d, %d) are expected", l, len(w), g.Experts, g.Hidden)
		}
	}
	return nil
}

// target is the layer that distance names from layer, if both have gates.
func (g Gates) target(layer, distance int) (int, bool) {
	target := layer + distance
	ok := layer >= 0 && distance > 0 && layer < len(g.Layers) && target < len(g.Layers) && target > layer &&
		g.Layers[layer] != nil && g.Layers[target] != nil
	return target, ok
}

// Sources are the layers from which distance reaches a layer with experts, ascending.
func (g Gates) Sources(distance int) (layers []int) {
	for l := range g.Layers {
		if _, ok := g.target(l, distance); ok {
			layers = append(layers, l)
		}
	}
	return layers
}

func (g Gates) checkDistance(distance int) error {
	if distance < 1 || distance >= len(g.Layers) {
		return fmt.Errorf("distance is %d; with %d layers it must be 1 to %d", distance, len(g.Layers), len(g.Layers)-1)
	}
	return g.Check()
}
