package distill

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/united"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// small is a distillation of a small model with random rows.
func small(t testing.TB) Settings {
	t.Helper()
	m, err := model.Open(goldens.Dir("qwen2_moe"))
	must(t, m, err)
	t.Cleanup(func() { _ = m.Close() })
	const sequences, length = 80, 40
	h := recording.Header{Model: m.Hash, Domains: []string{"a", "b"}, Experts: m.Spec.Experts, TopK: m.Spec.TopK, Hidden: m.Spec.Hidden, Rows: sequences * length}
	for l := range m.Spec.Layer {
		h.Layers = append(h.Layers, l)
	}
	path := filepath.Join(t.TempDir(), "r")
	w, err := recording.Create(path, h)
	must(t, w, err)
	rows, x, chosen := make([]recording.Row, h.Rows), make([]float32, h.Rows*h.Hidden), []int32(nil)
	g := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i] = recording.Row{Domain: i / (h.Rows / 2), Sequence: i / length, Position: i % length, Token: uint32(i % m.Spec.Vocab)}
		chosen = append(chosen, 0, 1, 2, 3) // nothing reads them here
	}
	must(t, 0, w.Describe(0, rows))
	for l := range h.Layers {
		for i := range x {
			x[i] = float32(g.NormFloat64())
		}
		cpu.RoundBF16(x)
		must(t, 0, w.Layer(l, 0, chosen, x))
	}
	must(t, 0, w.Close())
	r, err := recording.Open(path)
	must(t, r, err)
	t.Cleanup(func() { _ = r.Close() })
	s := Default()
	s.Model, s.Recording, s.Ways, s.Out, s.Progress = m, r, []int{2, 5}, filepath.Join(t.TempDir(), "united"), func(string, ...any) {}
	s.Passes, s.Batch, s.Rate, s.Threads = 4, 32, 3e-3, 2
	must(t, 0, os.MkdirAll(s.Out, 0o755))
	return s
}

func files(t *testing.T, s Settings) (all []byte) {
	t.Helper()
	for _, way := range s.Ways {
		data, err := os.ReadFile(filepath.Join(s.Out, united.Name(way)))
		all = append(all, must(t, data, err)...)
	}
	return all
}

// Students are better than the mean of the members' weights, and than the busiest member; one
// thread gives the bits of two; a run that was ended goes on to the same bits.
func TestRun(t *testing.T) {
	s := small(t)
	headers, err := Run(t.Context(), s)
	must(t, headers, err)
	for way, h := range headers {
		b, err := united.Open(s.Out, way, s.Model)
		must(t, b, err)
		if err := b.Close(); err != nil || len(b.Table) != len(h.Table) || b.Digest == "" {
			t.Errorf("way %d: %v, %d groups of %d", way, err, len(b.Table), len(h.Table))
		}
		var got, averaged, busiest float64
		for _, g := range h.Table {
			got, averaged, busiest = got+g.Error, averaged+g.Averaged, busiest+g.Busiest
			if g.Rows == 0 || g.HeldOut == 0 || g.Start == "" || len(g.Experts) == 0 {
				t.Errorf("way %d: %+v", way, g)
			}
		}
		if !(got > 0 && got < averaged && got < busiest) {
			t.Errorf("way %d: errors %v of students, %v of mean weights, %v of the busiest members", way, got, averaged, busiest)
		}
	}
	want := files(t, s)
	ended := s
	ended.Threads, ended.Out = 1, filepath.Join(t.TempDir(), "again")
	must(t, 0, os.MkdirAll(ended.Out, 0o755))
	ctx, stop := context.WithCancel(t.Context())
	done := 0
	ended.Progress = func(string, ...any) {
		if done++; done == 5 {
			stop()
		}
	}
	if _, err := Run(ctx, ended); err == nil || !strings.Contains(err.Error(), "the same command goes on with it") {
		t.Fatalf("a run that was ended: %v", err)
	}
	left := 0
	ended.Progress = func(string, ...any) { left++ }
	if _, err := Run(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if all := len((&teacher{Settings: s}).units()); left != all-5 {
		t.Errorf("%d students were made behind 5 of %d", left, all)
	}
	if !bytes.Equal(files(t, ended), want) {
		t.Error("one thread, and a run that was ended, give other bits")
	}
}

// Parts of another distillation are not mixed in.
func TestOtherParts(t *testing.T) {
	s := small(t)
	ctx, stop := context.WithCancel(t.Context())
	s.Progress = func(string, ...any) { stop() }
	if _, err := Run(ctx, s); err == nil {
		t.Fatal("it went on")
	}
	s.Loss = Eq4
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is of another distillation") {
		t.Errorf("got %v", err)
	}
}

// By eq4 the error over all members and rows is the smaller one. On as few random rows as these,
// which it learns from that chose a member decides little.
func TestLosses(t *testing.T) {
	if testkit.Race {
		t.Skip("TestRun has all of its goroutines")
	}
	s := small(t)
	s.Ways, s.Passes = []int{4}, 6
	routed, err := Run(t.Context(), s)
	must(t, routed, err)
	s.Loss = Eq4
	eq4, err := Run(t.Context(), s)
	must(t, eq4, err)
	var a, b float64
	for i, g := range routed[4].Table {
		a, b = a+g.Members, b+eq4[4].Table[i].Members
	}
	if b >= a {
		t.Errorf("errors over all members: %v by eq4, %v by routed", b, a)
	}
}

// Students of groups by output learn from the whole model what their experts' outputs did not teach them; a run
// that was ended goes on to the same bits, with other threads; each expert is in one group.
func TestThrough(t *testing.T) {
	if testkit.Race {
		t.Skip("TestRun has all of its goroutines")
	}
	s := small(t)
	s.Ways, s.Passes, s.Group, s.Through, s.ThroughRate = []int{5}, 2, ByOutput, 6000, 5e-3
	var divergences []float64
	s.Progress = func(format string, args ...any) {
		if strings.Contains(format, "divergence") {
			d, _ := args[3].(float64)
			divergences = append(divergences, d)
		}
	}
	headers, err := Run(t.Context(), s)
	must(t, headers, err)
	if n := len(divergences); n < 3 || !(divergences[n-1] < 0.9*divergences[0]) {
		t.Errorf("divergences from the model without a brownout: %v", divergences)
	}
	b, err := united.Open(s.Out, 5, s.Model)
	must(t, b, err)
	if err := b.Close(); err != nil || len(b.Table) != 3*len(s.Recording.Layers) {
		t.Errorf("%d groups, %v", len(b.Table), err)
	}
	want := files(t, s)
	ended := s
	ended.Out, ended.Threads = filepath.Join(t.TempDir(), "again"), 1
	must(t, 0, os.MkdirAll(ended.Out, 0o755))
	ctx, stop := context.WithCancel(t.Context())
	ended.Progress = func(format string, args ...any) {
		if strings.Contains(format, "divergence") && args[1] != any(0) {
			stop()
		}
	}
	if _, err := Run(ctx, ended); err == nil {
		t.Fatal("it went on")
	}
	ended.Progress = func(format string, args ...any) {
		if strings.Contains(format, "divergence") && args[1] == any(0) {
			t.Error("it began anew")
		}
	}
	again, err := Run(t.Context(), ended)
	must(t, again, err)
	if !bytes.Equal(files(t, ended), want) {
		t.Error("a run that was ended gives other bits")
	}
}

// Experts that are near each other come into one group.
func TestAlike(t *testing.T) {
	at := []float64{0, 10, 20, 0.1, 10.1, 20.1, 0.2, 10.2, 20.2}
	apart := make([][]float64, len(at))
	for a := range at {
		for b := range at {
			apart[a] = append(apart[a], (at[a]-at[b])*(at[a]-at[b]))
		}
	}
	got := alike(apart, 3)
	for group := range slices.Chunk(got, 3) {
		for _, e := range group {
			if e%3 != group[0]%3 {
				t.Errorf("groups %v", got)
			}
		}
	}
}

// The gradient is what small changes of the weights show.
func TestGradient(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	random := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(g.NormFloat64() / 2)
		}
		return w
	}
	const d, f, n = 6, 4, 5
	e := newNet(d, f, random(2*f*d), random(d*f))
	b := &rows{d: d, n: n, x: random(n * d), t: random(n * d), g: []float32{1, 0.5, 0.25, 0.75, 1}}
	var s scratch
	e.learn(b, b.norm(), 0, &s) // at rate 0 the weights stay
	norm := b.norm()
	loss := func() float64 { e.pack(); return b.loss(e, &s) * b.norm() / norm }
	for name, of := range map[string]struct{ w, grad []float32 }{"in": {e.in.W, e.in.Grad}, "down": {e.down.W, e.down.Grad}} {
		for i := range of.w {
			const small = 1e-2
			was := of.w[i]
			of.w[i] = was + small
			above := loss()
			of.w[i] = was - small
			below := loss()
			of.w[i] = was
			if want := (above - below) / (2 * small); math.Abs(want-float64(of.grad[i])) > 2e-3 {
				t.Errorf("%s[%d]: gradient %v, changes show %v", name, i, of.grad[i], want)
			}
		}
	}
}

// Neurons in another order are the same network, and matching finds it.
func TestMatched(t *testing.T) {
	s := small(t)
	first, err := load(s.Model, 0, 0)
	must(t, first, err)
	order := rand.New(rand.NewPCG(1, 5)).Perm(first.f)
	other := newNet(first.d, first.f, make([]float32, len(first.in.W)), make([]float32, len(first.down.W)))
	other.add(first, order, 1)
	got, err := start(Matched, []*net{first, other}, []int{2, 1})
	must(t, got, err)
	if !slices.Equal(got.in.W, first.in.W) || !slices.Equal(got.down.W, first.down.W) {
		t.Error("the matched mean of a network and itself in another order is another one")
	}
}

func TestSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no way":      {func(s *Settings) { s.Ways = nil }, "no way is given"},
		"way 1":       {func(s *Settings) { s.Ways = []int{1} }, "way 1: a united expert stands in for 2 experts at least"},
		"way 13":      {func(s *Settings) { s.Ways = []int{13} }, "for the layer's 12 at most"},
		"a way twice": {func(s *Settings) { s.Ways = []int{2, 2} }, "each way is named once"},
		"loss":        {func(s *Settings) { s.Loss = "l1" }, `there is no loss "l1"; there are routed and eq4`},
		"start":       {func(s *Settings) { s.Start = "zero" }, `a student cannot start as "zero"`},
		"grouping":    {func(s *Settings) { s.Group = "size" }, `experts cannot be grouped by "size"`},
		"through":     {func(s *Settings) { s.Through = -1 }, "from -1 rows through the whole model"},
		"its rate":    {func(s *Settings) { s.ThroughRate = 0 }, "at rate 0"},
		"rate":        {func(s *Settings) { s.Rate = float32(math.NaN()) }, "at rate NaN"},
		"passes":      {func(s *Settings) { s.Passes = -1 }, "-1 passes"},
	} {
		s := small(t)
		tt.change(&s)
		if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
