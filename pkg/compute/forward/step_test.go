package forward

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

var wires = []tensor.Wire{tensor.F32, tensor.BF16}

// The layer of many rows is the layer of each row, whatever the wire.
func TestLocalRowInvariant(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	d, ctx := r.m.Spec.Hidden, context.Background()
	const rows = 40
	x := noise(4, rows*d)
	var outs [][]float32
	for _, w := range wires {
		local := r.local(w)
		all, before := run(ctx, t, local, x), slices.Clone(x)
		for i := range rows {
			if !same(run(ctx, t, local, x[i*d:(i+1)*d]), all[i*d:(i+1)*d]) {
				t.Fatalf("wire %s: row %d differs alone", w, i)
			}
		}
		if !same(before, x) {
			t.Errorf("wire %s: the input changed", w)
		}
		outs = append(outs, all)
	}
	rounded := slices.Clone(outs[1])
	if tensor.BF16.Round(rounded); !same(rounded, outs[1]) {
		t.Error("the block did not cross the wire")
	}
	if same(outs[0], outs[1]) {
		t.Error("both wires gave the same bits")
	}
}

func run(ctx context.Context, t testing.TB, moe MoE, x []float32) []float32 {
	t.Helper()
	pending, err := moe.Start(ctx, 0, x)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(x))
	if err := pending.Wait(ctx, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Sums are in slot order: another order would give other bits.
func TestCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, k, d := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "k"), rapid.IntRange(1, 40).Draw(t, "d")
		x := noise(rapid.Uint64().Draw(t, "seed"), rows*k*d)
		got := noise(1, rows*d) // what was there before does not count
		Combine(got, x, nil, k, d)
		want := make([]float32, rows*d)
		for r := range rows {
			for i := range d {
				sum := x[r*k*d+i]
				for s := 1; s < k; s++ {
					sum += x[(r*k+s)*d+i]
				}
				want[r*d+i] = sum
			}
		}
		if !same(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		shuffled, at := shuffle(t, x, rows*k, d)
		if Combine(got, shuffled, at, k, d); !same(got, want) {
			t.Fatalf("in another order %v, want %v", got, want)
		}
	})
}

// A slot without a partial adds nothing, and changes no bit: −0 stays −0.
func TestCombineGaps(t *testing.T) {
	zero, negative := float32(0), float32(math.Copysign(0, -1))
	partials := []float32{negative, 2, 3}
	for _, tc := range []struct {
		at   []int32
		want float32
	}{
		{[]int32{-1, -1, -1}, zero}, {[]int32{0, -1, -1}, negative}, {[]int32{-1, -1, 0}, negative},
		{[]int32{-1, 2, 1}, 5}, {[]int32{1, -1, 2}, 5}, {[]int32{2, 1, 0}, 5},
	} {
		out := []float32{7}
		if Combine(out, partials, tc.at, 3, 1); math.Float32bits(out[0]) != math.Float32bits(tc.want) {
			t.Errorf("%v: %v, want %v", tc.at, out[0], tc.want)
		}
	}
}

// shuffle puts n rows of x in another order; at says where each has gone.
func shuffle(t *rapid.T, x []float32, n, d int) (shuffled []float32, at []int32) {
	shuffled, at = make([]float32, n*d), make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	if n > 0 {
		at = rapid.Permutation(at).Draw(t, "at")
	}
	for i, to := range at {
		copy(shuffled[int(to)*d:], x[i*d:(i+1)*d])
	}
	return shuffled, at
}

func ids(n, vocab int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32((17*i*i + 5*i + 3) % vocab)
	}
	return out
}

// logitsOf takes rows through the layers and returns the logits (L, V) of those
// that want them.
func logitsOf(s *Step, rows []Row) (out []float32, err error) {
	if err := s.Run(context.Background(), rows); err != nil {
		return nil, err
	}
	return out, s.Logits(context.Background(), func(_ []int, logits []float32) { out = append(out, logits...) })
}

// prefill takes a prompt through the layers in pieces and returns the logits
// of all positions.
func prefill(t testing.TB, s *Step, table *kvcache.Table, prompt []uint32, pieces []int) (out []float32) {
	t.Helper()
	pos := 0
	for _, n := range pieces {
		var rows []Row
		for range n {
			rows = append(rows, Row{Table: table, ID: prompt[pos], Position: pos, Logits: true})
			pos++
		}
		logits, err := logitsOf(s, rows)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, logits...)
	}
	if pos != len(prompt) {
		t.Fatalf("%d of %d positions", pos, len(prompt))
	}
	return out
}

// A prompt gives the same bits in pieces of any size: a resumed request's
// prefill repeats what decoding made.
func TestPrefillInPieces(t *testing.T) {
	for _, name := range []string{"tiny", "mixtral-window", "qwen2_moe", "qwen2_moe-mixed", "deepseek_v2", "deepseek_v3"} {
		for _, w := range wires {
			t.Run(name+"/"+string(w), func(t *testing.T) {
				m := modeltest.Tiny(t)
				if name != "tiny" {
					m = modeltest.Golden(t, name)
				}
				r := newRig(t, m)
				const n = 75 // three pages
				prompt := ids(n, m.Spec.Vocab)
				want := prefill(t, r.step(w), r.table(t, n), prompt, slices.Repeat([]int{1}, n))
				for _, pieces := range [][]int{{n}, {1, n - 1}, {32, 32, 11}, {40, 1, 1, 33}} {
					if got := prefill(t, r.step(w), r.table(t, n), prompt, pieces); !same(got, want) {
						t.Errorf("pieces %v differ from one by one", pieces)
					}
				}
			})
		}
	}
}

// company is the rows of sequences of so many tokens, each of which wants logits at its last, and what the step makes of each alone.
func company(t *testing.T, r *rig, step *Step, lengths ...int) (rows []Row, want []float32) {
	t.Helper()
	vocab := r.m.Spec.Vocab
	for i, n := range lengths {
		prompt := ids(n+i, vocab)[i:]
		alone := prefill(t, step, r.table(t, n), prompt, []int{n})
		want = append(want, alone[(n-1)*vocab:]...)
		table := r.table(t, n)
		for pos, id := range prompt {
			rows = append(rows, Row{Table: table, ID: id, Position: pos, Logits: pos == n-1})
		}
	}
	return rows, want
}

// A sequence's logits are the same beside others, in any place among the rows.
func TestCompany(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	step := r.step(tensor.BF16)
	rows, want := company(t, r, step, 40, 1, 33, 7)
	got, err := logitsOf(step, rows)
	if err != nil {
		t.Fatal(err)
	}
	if !same(got, want) {
		t.Error("logits beside others differ from those alone")
	}
}

// Logits are the same in slices of rows, no matter how many, and no slice is
// larger than it may be.
func TestLogitsInSlices(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	vocab, prompt := r.m.Spec.Vocab, ids(9, r.m.Spec.Vocab)
	want := prefill(t, r.step(tensor.BF16), r.table(t, 9), prompt, []int{9})
	for _, rows := range []int{0, 1, 2, 4, 9, 100} {
		s := r.step(tensor.BF16)
		l := r.lane(t)
		s.lane, l.atOnce = l, max(1, rows*vocab)
		if got := prefill(t, s, r.table(t, 9), prompt, []int{9}); !same(got, want) {
			t.Errorf("%d rows at once: other logits", rows)
		}
		if limit := max(1, rows) * vocab; len(l.logits) > limit {
			t.Errorf("%d logits in memory, at most %d are allowed", len(l.logits), limit)
		}
	}
}

// A step says that it gets on while it is in a layer, and with logits.
func TestProgress(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	s := r.step(tensor.BF16)
	s.Progress = &Progress{}
	rows := []Row{{Table: r.table(t, 2), ID: 5, Logits: true}, {Table: r.table(t, 2), ID: 6, Logits: true}}
	var seen []uint64
	s.MoE = watchedMoE{s.MoE, func() { seen = append(seen, s.Progress.Done()) }}
	if err := s.Run(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := s.Logits(t.Context(), func([]int, []float32) { seen = append(seen, s.Progress.Done()) }); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[0] == 0 {
		t.Fatalf("%v, want counts of 2 layers and of what rows share", seen)
	}
	for i, n := range seen[1:] {
		if n <= seen[i] {
			t.Errorf("no progress between two looks: %v", seen)
		}
	}
}

// watchedMoE tells when a layer's experts begin.
type watchedMoE struct {
	MoE
	begins func()
}

func (w watchedMoE) Start(ctx context.Context, layer int, x []float32) (Pending, error) {
	w.begins()
	return w.MoE.Start(ctx, layer, x)
}

func TestNoLogitsWanted(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	got, err := logitsOf(r.step(tensor.F32), []Row{{Table: r.table(t, 1), ID: 5}})
	if err != nil || len(got) != 0 {
		t.Errorf("%d logits, %v", len(got), err)
	}
}

// failing is routed experts that cannot be reached.
type failing struct{ start, wait error }

func (f failing) Start(context.Context, int, []float32) (Pending, error) { return f, f.start }
func (f failing) Wait(context.Context, []float32) error                  { return f.wait }

func TestStepFails(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	gone := errors.New("gone")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		moe  failing
		want error
	}{
		{"at the start", context.Background(), failing{start: gone}, gone},
		{"in the wait", context.Background(), failing{wait: gone}, gone},
		{"cancelled", cancelled, failing{}, context.Canceled},
	} {
		s := &Step{Backbone: r.backbone, MoE: tc.moe}
		if err := s.Run(tc.ctx, []Row{{Table: r.table(t, 1), ID: 5}}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// watching writes down a step's parts.
type watching struct{ begun, ended []string }

func (w *watching) Begin(ctx context.Context, part string, _ int) (context.Context, func()) {
	w.begun = append(w.begun, part)
	return ctx, func() { w.ended = append(w.ended, part) }
}

func TestWatched(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	s, w := r.step(tensor.F32), &watching{}
	s.Watch = w
	if err := s.Run(context.Background(), []Row{{Table: r.table(t, 1), ID: 5}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.begun, []string{"layer", "attention", "layer", "attention"}) ||
		!slices.Equal(w.ended, []string{"attention", "layer", "attention", "layer"}) {
		t.Errorf("begun %v, ended %v", w.begun, w.ended)
	}
}

func TestElementBytes(t *testing.T) {
	if tensor.F32.ElementBytes() != 4 || tensor.BF16.ElementBytes() != 2 {
		t.Error("element sizes")
	}
}
