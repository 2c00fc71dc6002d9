package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

const (
	demo = "../../../models/demo"
)

var greedy = sampling.Params{TopP: 1, Logprobs: -1}

func load(t testing.TB, dir string, wire tensor.Wire) (*Runner, *model.Model) {
	t.Helper()
	return loadIn(t, dir, wire, model.AsStored)
}

func loadIn(t testing.TB, dir string, wire tensor.Wire, precision model.Precision) (*Runner, *model.Model) {
	t.Helper()
	return loadKept(t, dir, wire, precision, model.KVAuto, 0)
}

// loadKept has keys and values kept so, and at most so many rows in a step; 0: any number.
func loadKept(t testing.TB, dir string, wire tensor.Wire, precision model.Precision, kept model.KVCache, rows int) (*Runner, *model.Model) {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.In(precision)
	if err := m.KeepIn(kept); err != nil {
		t.Fatal(err)
	}
	p := pool.New(2)
	t.Cleanup(func() { p.Close(); _ = m.Close() })
	r, err := New(m, p, Settings{Wire: wire, MaxPositions: 512, KVBytes: 256 << 20, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

func golden(t *testing.T, dir, name string) (shape []int, floats []float32, ints []uint32) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	if x.DType == safetensors.F32 {
		floats, err = x.Floats()
		if err != nil {
			t.Fatal(err)
		}
		return x.Shape, floats, nil
	}
	for i := 0; i < len(x.Data); i += 4 {
		ints = append(ints, uint32(x.Data[i])|uint32(x.Data[i+1])<<8)
	}
	return x.Shape, nil, ints
}

func TestGolden(t *testing.T) {
	dirs := []string{demo}
	for _, name := range goldens.Names() {
		dirs = append(dirs, goldens.Dir(name))
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r, m := load(t, dir, tensor.F32)
			if m.Spec.Task() != model.Continue {
				return // see bert_test.go
			}
			checkLogits(t, r, dir, "logits", m.Spec.Vocab)
			if dir != demo {
				checkLogits(t, r, dir, "prefix_logits", m.Spec.Vocab)
			}
			checkGreedy(t, r, dir)
		})
	}
}

// positions are the first n that golden outputs are of.
func positions(t *testing.T, dir string, n int) []int {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	list, err := goldens.Positions(f, n)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkLogits compares a tensor of logits (sequences, positions, V), of the first ids of each
// sequence up to the last of the positions.
func checkLogits(t *testing.T, r *Runner, dir, name string, vocab int) {
	ids, _, all := golden(t, dir, "input_ids")
	shape, want, _ := golden(t, dir, name)
	tolerance := 2e-3 * max(1, deviation(want))
	at := positions(t, dir, shape[1])
	n := at[len(at)-1] + 1
	for row := range shape[0] {
		s, err := r.Add(all[row*ids[1]:row*ids[1]+n], 0, greedy)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Logits(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != n*vocab {
			t.Fatalf("%s, sequence %d: %d logits, want %d", name, row, len(got), n*vocab)
		}
		size := len(at) * vocab
		if d := maxDiff(goldens.Rows(got, vocab, at), want[row*size:(row+1)*size]); d > tolerance || math.IsNaN(d) {
			t.Errorf("%s, sequence %d: logits differ by %g, tolerance %g", name, row, d, tolerance)
		}
		s.Close()
	}
}

func checkGreedy(t *testing.T, r *Runner, dir string) {
	_, _, want := golden(t, dir, "greedy_ids")
	var facts struct {
		GreedyPrompt int `json:"greedy_prompt"`
	}
	body, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &facts); err != nil {
		t.Fatal(err)
	}
	s, err := r.Add(want[:facts.GreedyPrompt], len(want), greedy)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want = want[facts.GreedyPrompt:]
	for len(s.Generated()) < len(want) {
		if err := r.Step(context.Background(), []*Sequence{s}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Generated(); !slices.Equal(got, want) {
		t.Errorf("greedy ids\n got %v\nwant %v", got, want)
	}
}

func deviation(x []float32) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(x))
	return math.Sqrt(squares/n - sum/n*sum/n)
}

func maxDiff(a, b []float32) (d float64) {
	for i := range a {
		d = max(d, math.Abs(float64(a[i]-b[i])))
	}
	return d
}

// Any batch, any split of a prompt, with or without messages' rounding: a
// sequence's tokens do not depend on its company.
func TestBatchInvariant(t *testing.T) {
	for _, tt := range []struct {
		wire      tensor.Wire
		precision model.Precision
	}{{tensor.F32, model.AsStored}, {tensor.BF16, model.AsStored}, {tensor.BF16, model.W16A16}, {tensor.BF16, model.W4A8}} {
		t.Run(fmt.Sprintf("%s/%s", tt.wire, tt.precision), func(t *testing.T) {
			r, _ := loadIn(t, "../../../models/demo", tt.wire, tt.precision)
			const n, tokens = 9, 12
			var alone [][]uint32
			for i := range n {
				alone = append(alone, generate(t, r, tokens, []int{i})[0])
			}
			all := generate(t, r, tokens, []int{0, 1, 2, 3, 4, 5, 6, 7, 8})
			for i := range alone {
				if !slices.Equal(alone[i], all[i]) {
					t.Errorf("sequence %d: alone %v, in a batch %v", i, alone[i], all[i])
				}
			}
		})
	}
}

func generate(t *testing.T, r *Runner, tokens int, which []int) (out [][]uint32) {
	t.Helper()
	var seqs []*Sequence
	for _, i := range which {
		prompt := []uint32{0}
		for k := range 3 + 5*i {
			prompt = append(prompt, uint32(100+37*i+11*k))
		}
		s, err := r.Add(prompt, tokens, sampling.Params{Temperature: 0.9, TopP: 0.95, Seed: uint32(i), Logprobs: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		seqs = append(seqs, s)
	}
	for range tokens {
		if err := r.Step(context.Background(), seqs); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range seqs {
		out = append(out, slices.Clone(s.Generated()))
	}
	return out
}

// Prompts that are computed in pieces, which part them anywhere, give the same tokens and
// logits as whole ones.
func TestPieces(t *testing.T) {
	whole, m := load(t, goldens.Dir("mixtral"), tensor.BF16)
	p := pool.New(1)
	t.Cleanup(p.Close)
	for _, rows := range []int{1, 5, 16} {
		pieces, err := New(m, p, Settings{Wire: tensor.BF16, MaxPositions: 64, KVBytes: 64 << 20, Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		var want []uint32
		for _, r := range []*Runner{whole, pieces} {
			var seqs []*Sequence
			for i := range 3 {
				ids := make([]uint32, 7+i)
				for k := range ids {
					ids[k] = uint32(11*k + i)
				}
				seqs = append(seqs, add(t, r, ids, 4))
			}
			var got []uint32
			for range 4 {
				if err := r.Step(t.Context(), seqs); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range seqs {
				got = append(got, s.Generated()...)
			}
			if r == whole {
				want = got
			} else if !slices.Equal(got, want) {
				t.Errorf("%d rows at once: %v, want %v", rows, got, want)
			}
		}
		ids := []uint32{5, 4, 3, 2, 1, 6, 7}
		if got, want := logitsOf(t, pieces, ids), logitsOf(t, whole, ids); !slices.Equal(got, want) {
			t.Errorf("%d rows at once: other logits", rows)
		}
	}
}

func logitsOf(t *testing.T, r *Runner, ids []uint32) []float32 {
	t.Helper()
	out, err := r.Logits(t.Context(), add(t, r, ids, 0))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// As many sequences have room as can be added.
func TestRoom(t *testing.T) {
	r, _ := load(t, goldens.Dir("mixtral"), tensor.BF16)
	n := 0
	for ; ; n++ {
		if _, err := r.Add(make([]uint32, 100), 50, greedy); err != nil {
			break
		}
	}
	if got := r.Room(150); got != n || n == 0 {
		t.Errorf("room for %d sequences, %d were added", got, n)
	}
}
