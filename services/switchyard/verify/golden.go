package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Golden is what transformers computes on a checkpoint.
type Golden struct {
	Dir                  string  `json:"-"`
	GreedyPrompt         int     `json:"greedy_prompt"`
	SmallestGreedyMargin float64 `json:"smallest_greedy_margin"`

	length int
	ids    []uint32  // (sequences, length)
	logits []float32 // (sequences, length, vocab)
	prefix []float32 // (1, n, vocab): the first n ids of sequence 0
	vocab  int
	greedy []uint32
}

// ReadGolden reads golden.json and golden.safetensors in a checkpoint's folder.
func ReadGolden(dir string) (*Golden, error) {
	g := &Golden{Dir: dir}
	facts, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the golden facts: %w", err)
	}
	if err := json.Unmarshal(facts, g); err != nil {
		return nil, fmt.Errorf("reading golden.json: %w", err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("opening the golden outputs: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	if err := g.read(f); err != nil {
		return nil, fmt.Errorf("golden.safetensors: %w", err)
	}
	return g, nil
}

func (g *Golden) read(f *safetensors.File) (err error) {
	shape, ids, err := ints(f, "input_ids", 2)
	if err != nil {
		return err
	}
	g.ids, g.length = ids, shape[1]
	logitsShape, logits, err := floats(f, "logits", 3)
	if err != nil {
		return err
	}
	g.logits, g.vocab = logits, logitsShape[2]
	if _, g.prefix, err = floats(f, "prefix_logits", 3); err != nil {
		return err
	}
	if _, g.greedy, err = ints(f, "greedy_ids", 2); err != nil {
		return err
	}
	if logitsShape[0] != shape[0] || logitsShape[1] != shape[1] || g.GreedyPrompt < 1 || g.GreedyPrompt >= len(g.greedy) {
		return fmt.Errorf("logits %v do not belong to ids %v, or greedy_prompt %d to %d greedy ids", logitsShape, shape, g.GreedyPrompt, len(g.greedy))
	}
	return nil
}

func floats(f *safetensors.File, name string, dims int) ([]int, []float32, error) {
	t, ok := f.Tensor(name)
	if !ok || len(t.Shape) != dims {
		return nil, nil, fmt.Errorf("no tensor %s of %d dimensions", name, dims)
	}
	x, err := t.Floats()
	return t.Shape, x, err
}

func ints(f *safetensors.File, name string, dims int) ([]int, []uint32, error) {
	t, ok := f.Tensor(name)
	if !ok || len(t.Shape) != dims {
		return nil, nil, fmt.Errorf("no tensor %s of %d dimensions", name, dims)
	}
	x, err := t.Ints()
	ids := make([]uint32, len(x))
	for i, v := range x {
		ids[i] = uint32(v)
	}
	return t.Shape, ids, err
}

// goldenPart is one run whose logits are known.
type goldenPart struct {
	ids    []uint32
	logits []float32
}

func (g *Golden) parts() (parts []goldenPart) {
	n := g.length
	for i := range len(g.ids) / n {
		parts = append(parts, goldenPart{g.ids[i*n : (i+1)*n], g.logits[i*n*g.vocab : (i+1)*n*g.vocab]})
	}
	return append(parts, goldenPart{g.ids[:len(g.prefix)/g.vocab], g.prefix})
}

// tolerance is 2e-3 of the golden logits' spread, and no less than 2e-3.
func (g *Golden) tolerance() float64 {
	sum, squares := 0.0, 0.0
	for _, x := range g.logits {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	n := float64(len(g.logits))
	return 2e-3 * max(1, math.Sqrt(squares/n-sum/n*sum/n))
}
