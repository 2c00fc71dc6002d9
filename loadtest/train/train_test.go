package train

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func demo(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Demo()
	return must(t, m, err)
}

// recorded is a recording of random rows for the demo model's gates. The inputs of
// layer l are those of layer 0 with their halves exchanged l times: what is to
// be learnt.
func recorded(t testing.TB, m *model.Model) *recording.Recording {
	t.Helper()
	const sequences, length = 20, 12
	gates, err := predictors.GatesOf(m)
	must(t, gates, err)
	h := recording.Header{Model: m.Hash, Domains: []string{"a", "b"}, Experts: gates.Experts, TopK: gates.TopK, Hidden: gates.Hidden, Rows: sequences * length}
	for l := range gates.Layers {
		h.Layers = append(h.Layers, l)
	}
	path := filepath.Join(t.TempDir(), "r")
	w, err := recording.Create(path, h)
	must(t, w, err)
	rows, x := make([]recording.Row, h.Rows), make([]float32, h.Rows*h.Hidden)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	cpu.RoundBF16(x)
	for i := range rows {
		rows[i] = recording.Row{Domain: i / (h.Rows / 2), Sequence: i / length, Position: i % length}
	}
	must(t, 0, w.Describe(0, rows))
	for l := range gates.Layers {
		must(t, 0, w.Layer(l, 0, choices(gates, l, x), x))
		for row := range slices.Chunk(x, h.Hidden) {
			copy(row, slices.Concat(row[h.Hidden/2:], row[:h.Hidden/2]))
		}
	}
	must(t, 0, w.Close())
	rec, err := recording.Open(path)
	t.Cleanup(func() { must(t, 0, rec.Close()) })
	return must(t, rec, err)
}

// choices are those of a layer's gate for x.
func choices(g predict.Gates, layer int, x []float32) (ids []int32) {
	vals := make([]float32, g.TopK)
	for row := range slices.Chunk(probabilities(g, layer, x), g.Experts) {
		chosen := make([]int32, g.TopK)
		cpu.TopK(chosen, vals, row)
		ids = append(ids, chosen...)
	}
	return ids
}

// small are settings whose training takes little.
func small(t testing.TB) Settings {
	m := demo(t)
	s := Settings{
		Model: m, Recording: recorded(t, m), Distances: 1, Threshold: 0.9, Adapters: []int{4}, Networks: []int{4}, Training: networks.Default(), Threads: 2,
		Out: filepath.Join(t.TempDir(), "w"), Progress: func(string, ...any) {},
	}
	s.Training.Passes, s.Training.Batch = 3, 16
	return s
}

func TestWeightsPredictBetterThanGates(t *testing.T) {
	s := small(t)
	w, err := Run(t.Context(), s)
	must(t, w, err)
	report, err := NewReport(s, w, 0)
	must(t, report, err)
	byMethod := map[string]Distance{}
	for _, d := range report.Distances {
		byMethod[d.Method] = d
	}
	reused, ours := byMethod[predict.MethodReused], byMethod[predict.MethodMoEless]
	if ours.Accuracy <= reused.Accuracy || ours.Tuned == 0 || byMethod[predict.MethodOracle].Accuracy != 1 || byMethod[predict.MethodOracle].Load != 1 {
		t.Errorf("reused %+v, ours %+v, oracle %+v", reused, ours, byMethod[predict.MethodOracle])
	}
	for _, want := range []string{"promoe-4", "history", "d = 1"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, report)
		}
	}
	file, err := predictors.Open(s.Out)
	must(t, file, err)
	if p, err := predictors.For(s.Model, s.Out, 1); err != nil || file.Note != s.Note() || p.Bytes() != ours.Bytes {
		t.Errorf("%v, %v, note %q", p, err, file.Note)
	}
}

// Training that is interrupted and taken up again ends as one that is not, byte by byte.
func TestResumedIsTheSame(t *testing.T) {
	s := small(t)
	_, err := Run(t.Context(), s)
	must(t, 0, err)
	want, err := os.ReadFile(s.Out)
	must(t, want, err)
	s.Out = filepath.Join(t.TempDir(), "w")
	for interrupted := 0; ; interrupted++ {
		ctx, cancel := context.WithCancel(t.Context())
		s.Progress = func(string, ...any) { cancel() } // after each unit
		_, err := Run(ctx, s)
		cancel()
		if err == nil {
			if interrupted == 0 {
				t.Error("nothing was interrupted")
			}
			break
		}
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), s.Out+".partial") {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(s.Out)
	if must(t, got, err); !bytes.Equal(got, want) {
		t.Error("the weights differ")
	}
}

func TestOtherTrainingIsNotGoneOnWith(t *testing.T) {
	s := small(t)
	if err := os.WriteFile(s.Out+".partial", []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("garbage: %v", err)
	}
	if err := os.Remove(s.Out + ".partial"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Progress = func(string, ...any) { cancel() }
	if _, err := Run(ctx, s); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.Threshold = 0.5
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "other training") {
		t.Errorf("other settings: %v", err)
	}
}

// Every domain is in every part, and no sequence in two.
func TestSplit(t *testing.T) {
	r := recorded(t, demo(t))
	s := splitSequences(r, 1)
	seen := map[int]bool{}
	for _, part := range [][]span{s.learn, s.validation, s.test} {
		domains := map[int]bool{}
		for _, sequence := range part {
			if seen[sequence.from] {
				t.Errorf("the sequence at row %d is in two parts", sequence.from)
			}
			seen[sequence.from] = true
			domains[r.Row(sequence.from).Domain] = true
		}
		if len(domains) != 2 {
			t.Errorf("a part has domains %v", domains)
		}
	}
	if len(seen) != 20 || len(s.learn) != 12 || len(s.test) != 6 {
		t.Errorf("%d sequences: %d to learn from, %d to test by", len(seen), len(s.learn), len(s.test))
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spoil      func(s *Settings)
	}{
		{"other model", "hash", func(s *Settings) { s.Recording.Model = "x" }},
		{"no inputs", "no inputs", func(s *Settings) { s.Recording.Hidden = 0 }},
		{"no distance", "at least 1", func(s *Settings) { s.Distances = 0 }},
		{"threshold", "threshold", func(s *Settings) { s.Threshold = 2 }},
		{"width", "width", func(s *Settings) { s.Adapters = []int{-1} }},
		{"passes", "passes", func(s *Settings) { s.Training.Passes = 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := small(t)
			tt.spoil(&s)
			if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
