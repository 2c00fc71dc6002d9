package forward

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/kvcache"
	"github.com/switchyard/switchyard/pkg/model"
)

// tiny is a synthetic model: 2 MoE layers, 4 experts, 2 of them a token.
func tiny(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// small is one of the committed checkpoints, for what tiny has not: shared and
// dense experts, biases, a sliding window.
func small(t testing.TB, name string) *model.Model {
	t.Helper()
	m, err := model.Open(filepath.Join("../model/testdata/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func threads(t testing.TB) *pool.Pool {
	t.Helper()
	p := pool.New(2)
	t.Cleanup(p.Close)
	return p
}

// rig is everything of a model in one place.
type rig struct {
	m      *model.Model
	trunk  *Trunk
	router *Router
	bank   *Bank
	kv     *kvcache.Pool
}

func newRig(t testing.TB, m *model.Model) *rig {
	t.Helper()
	p := threads(t)
	r := &rig{m: m, bank: warm(t, m, p)}
	var err error
	if r.trunk, err = LoadTrunk(m, p, 256); err != nil {
		t.Fatal(err)
	}
	if r.router, err = LoadRouter(m, p); err != nil {
		t.Fatal(err)
	}
	if r.kv, err = kvcache.NewPool(r.trunk.Shape(), 32<<20); err != nil {
		t.Fatal(err)
	}
	return r
}

// warm is a bank with all experts.
func warm(t testing.TB, m *model.Model, p *pool.Pool) *Bank {
	t.Helper()
	b := NewBank(m, p)
	for l, spec := range m.Spec.Layer {
		for e := 0; spec.MoE && e < m.Spec.Experts; e++ {
			if err := b.Load(ExpertID{l, e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

func (r *rig) step(w Wire) *Step {
	return &Step{Trunk: r.trunk, MoE: &Local{Router: r.router, Bank: r.bank, Wire: w}}
}

func (r *rig) table(t testing.TB, positions int) *kvcache.Table {
	t.Helper()
	table, err := r.kv.Reserve(positions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	return table
}

// noise is n numbers that a seed always gives.
func noise(seed uint64, n int) []float32 {
	g := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(g.NormFloat64())
	}
	return x
}

// same compares bit for bit.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
