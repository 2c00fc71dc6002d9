package networks

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

const (
	hidden, experts, topK = 24, 6, 2
)

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// examplesOf are random inputs, and what a gate (E, D) chooses of change(input).
func examplesOf(seed uint64, rows int, gate []float32, change func(x []float32)) *Examples {
	r := rand.New(rand.NewPCG(seed, 1))
	e := &Examples{Hidden: hidden, Experts: experts, TopK: topK, X: normal(r, rows*hidden), Soft: make([]float32, rows*experts)}
	seen := append([]float32(nil), e.X...)
	for i := range rows {
		change(seen[i*hidden : (i+1)*hidden])
	}
	multiply(e.Soft, seen, rows, cpu.PackF32(gate, experts, hidden))
	e.Wide = predict.NewSource(predict.Gates{Hidden: hidden, Experts: experts, TopK: topK, Layers: [][]float32{gate}}, 0).Wide(e.X, rows)
	for i := range rows {
		ids, vals := make([]int32, topK), make([]float32, topK)
		probs := e.Soft[i*experts : (i+1)*experts]
		cpu.Softmax(probs)
		cpu.TopK(ids, vals, probs)
		e.Chosen = append(e.Chosen, ids...)
	}
	return e
}

// turned is a change that a matrix can foresee, bent one that it cannot.
func turned(x []float32) {
	for i := 0; i+1 < len(x); i += 2 {
		x[i], x[i+1] = x[i]-x[i+1], x[i]+x[i+1]
	}
}

func bent(x []float32) {
	for i := 0; i+1 < len(x); i += 2 {
		x[i], x[i+1] = max(x[i], x[i+1]), min(x[i], -x[i+1])
	}
}

func settings() Settings {
	s := Default()
	s.Batch, s.Rate = 64, 1e-2
	return s
}

func gate() []float32 { return normal(rand.New(rand.NewPCG(5, 5)), experts*hidden) }

func TestTuningHelps(t *testing.T) {
	g := gate()
	learn, validation, held := examplesOf(1, 2000, g, turned), examplesOf(2, 400, g, turned), examplesOf(3, 400, g, turned)
	before := Accuracy(held, predict.Tuned{Gate: g})
	tuned, err := Gate(learn, validation, g, settings())
	if err != nil {
		t.Fatal(err)
	}
	if after := Accuracy(held, tuned); after < before+0.2 || after < 0.9 {
		t.Errorf("accuracy %.3f before, %.3f after", before, after)
	}
}

func TestAdapterHelpsWhereAMatrixCannot(t *testing.T) {
	g := gate()
	learn, validation := examplesOf(1, 3000, g, bent), examplesOf(2, 600, g, bent)
	plain, err := Gate(learn, validation, g, settings())
	if err != nil {
		t.Fatal(err)
	}
	tuned, err := Adapt(learn, validation, g, 48, settings())
	if err != nil {
		t.Fatal(err)
	}
	if without, with := Accuracy(validation, plain), Accuracy(validation, tuned); tuned.Adapter.Width != 48 || with < without+0.05 {
		t.Errorf("accuracy %.3f of the copy, %.3f with an adapter", without, with)
	}
}

func TestNetworkLearns(t *testing.T) {
	g := gate()
	learn, validation := examplesOf(1, 3000, g, bent), examplesOf(2, 600, g, bent)
	network, err := Network(learn, validation, 48, settings())
	if err != nil {
		t.Fatal(err)
	}
	// Two of six are right by chance.
	l := &learner{d: hidden, e: experts, network: learning(&network, hidden)}
	if accuracy := l.accuracy(validation); accuracy < 0.7 {
		t.Errorf("accuracy %.3f", accuracy)
	}
}

func TestSameSeedSameWeights(t *testing.T) {
	g := gate()
	learn, validation := examplesOf(1, 300, g, bent), examplesOf(2, 60, g, bent)
	train := func(seed uint64) predict.Tuned {
		s := settings()
		s.Seed, s.Passes = seed, 2
		tuned, err := Adapt(learn, validation, g, 8, s)
		if err != nil {
			t.Fatal(err)
		}
		return tuned
	}
	if !reflect.DeepEqual(train(1), train(1)) {
		t.Error("the same seed gave other weights")
	}
	if reflect.DeepEqual(train(1), train(2)) {
		t.Error("another seed gave the same weights")
	}
}

// The gradients are those that small changes of the weights show.
func TestGradients(t *testing.T) {
	g := gate()
	e := examplesOf(1, 8, g, bent)
	l := &learner{d: hidden, e: experts, gate: NewAdam(g), network: newNetwork(hidden+experts, experts, 5, 1, false), adapts: true}
	var b batch
	b.take(e, []int{0, 1, 2, 3, 4, 5, 6, 7}, 0.5)
	l.learn(&b, 0) // a rate of 0 leaves the weights
	for name, a := range map[string]*Adam{"gate": l.gate, "w1": l.network.w1, "b1": l.network.b1, "w2": l.network.w2, "b2": l.network.b2} {
		for _, i := range []int{0, len(a.W) / 2, len(a.W) - 1} {
			const small = 1e-2
			was := a.W[i]
			a.W[i] = was + small
			above := l.loss(&b)
			a.W[i] = was - small
			below := l.loss(&b)
			a.W[i] = was
			if want := (above - below) / (2 * small); math.Abs(want-float64(a.Grad[i])) > 2e-3 {
				t.Errorf("%s[%d]: gradient %v, changes show %v", name, i, a.Grad[i], want)
			}
		}
	}
}

// loss is the mean cross-entropy of a batch.
func (l *learner) loss(b *batch) (sum float64) {
	l.score(b.x, b.wide, b.rows)
	for r := range b.rows {
		probs := l.scores[r*experts : (r+1)*experts]
		cpu.Softmax(probs)
		for i, t := range b.target[r*experts : (r+1)*experts] {
			sum -= float64(t) * math.Log(float64(probs[i])) / float64(b.rows)
		}
	}
	return sum
}

func TestStopsWhenAsked(t *testing.T) {
	g := gate()
	e := examplesOf(1, 100, g, turned)
	s := settings()
	s.Stop = func() bool { return true }
	if _, err := Gate(e, e, g, s); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	g := gate()
	e, none := examplesOf(1, 10, g, turned), &Examples{Hidden: hidden, Experts: experts, TopK: topK}
	bad := settings()
	bad.Passes = 0
	for _, tt := range []struct {
		name              string
		learn, validation *Examples
		settings          Settings
	}{
		{"no rows", none, e, settings()},
		{"nothing to validate by", e, none, settings()},
		{"no pass", e, e, bad},
	} {
		if _, err := Network(tt.learn, tt.validation, 4, tt.settings); err == nil {
			t.Errorf("%s: it was taken", tt.name)
		}
	}
}
