package forward

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// groupedQuery is attention with H query heads, of which each group of H/G shares
// a key/value head.
//
// Source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer
// Models from Multi-Head Checkpoints", section 2.
type groupedQuery struct {
	spec    model.MixerSpec
	qkv     *cpu.Matrix // ((H+2G)·C, D)
	qkvBias []float32   // ((H+2G)·C), or nil
	o       *cpu.Matrix // (D, H·C)
	oBias   []float32   // (D), or nil
	sinks   []float32   // (H), or nil
	norm    *qkNorm
	rope    *rope
}

func loadGroupedQuery(m *model.Model, l int, r *rope) (_ *groupedQuery, err error) {
	g := &groupedQuery{spec: m.Spec.Layer[l].Mixer, rope: r}
	if err := g.computed(); err != nil {
		return nil, err
	}
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	if g.qkv, err = loadMatrix(m, at(model.Q), at(model.K), at(model.V)); err != nil {
		return nil, err
	}
	if g.o, err = loadMatrix(m, at(model.O)); err != nil {
		return nil, err
	}
	if g.norm, err = loadQKNorm(m, l); err != nil {
		return nil, err
	}
	return g, g.loadBiases(m, at)
}

func (g *groupedQuery) loadBiases(m *model.Model, at func(model.Role) model.Ref) (err error) {
	if g.spec.QKVBias {
		if g.qkvBias, err = loadFloats(m, at(model.QBias), at(model.KBias), at(model.VBias)); err != nil {
			return err
		}
	}
	if g.spec.OBias {
		if g.oBias, err = loadFloats(m, at(model.OBias)); err != nil {
			return err
		}
	}
	if g.spec.Sinks {
		g.sinks, err = loadFloats(m, at(model.Sinks))
	}
	return err
}

func (g *groupedQuery) computed() error {
	if s := &g.spec; s.HeadDim != s.ValueDim {
		return fmt.Errorf("values of %d dimensions with keys of %d are not computed", s.ValueDim, s.HeadDim)
	}
	return nil
}

func (g *groupedQuery) bytes() int64 { return g.qkv.Bytes() + g.o.Bytes() }

func (g *groupedQuery) nanos(r *Row) int {
	return 2*(g.qkv.N*g.qkv.K+g.o.N*g.o.K)/flopsPerNano + g.attendNanos(r.Position)
}

func (g *groupedQuery) attendNanos(position int) int {
	return g.o.K * (position + 1 - g.spec.First(position)) * 4 / attendFlopsPerNano
}

func (g *groupedQuery) mix(s *lane, place int, dst, x []float32) {
	n := len(s.rows)
	s.qkv = reuse.Slice(s.qkv, n*g.qkv.N)
	s.attn = reuse.Slice(s.attn, n*g.o.K)
	matMul(s.workers(), s.qkv, x, n, g.qkv)
	eachRow(s.workers(), n, 2*g.qkv.N, func(from, to int) {
		for i := from; i < to; i++ {
			g.storeRow(s, i, place)
		}
	})
	s.narrow(s.qkv, g.qkv.N)
	if n = len(s.rows); n == 0 {
		return
	}
	g.attend(s, place)
	matMul(s.workers(), dst, s.attn, n, g.o)
	addBiases(s.workers(), dst, g.oBias, n)
}

// storeRow makes row i's queries, keys and values of their projections, and writes
// keys and values to the cache.
func (g *groupedQuery) storeRow(s *lane, i, place int) {
	sp, r := &g.spec, &s.rows[i]
	c, width := sp.HeadDim, g.qkv.N
	row := s.qkv[i*width : (i+1)*width]
	q, k, v := row[:sp.Heads*c], row[sp.Heads*c:(sp.Heads+sp.KVHeads)*c], row[(sp.Heads+sp.KVHeads)*c:]
	addBias(row, g.qkvBias, 0, 1)
	g.norm.before(q, k)
	clip(row, sp.Clip)
	g.rope.turn(row, sp.Heads+sp.KVHeads, c, r)
	g.norm.after(q, k)
	if sp.Temperature.Floor > 0 {
		cpu.Scale(q, Temperature(sp.Temperature, r.Position))
	}
	r.Table.Store(place, r.Position, k, v)
}

// clip cuts x off at ±limit; 0 is no limit.
func clip(x []float32, limit float32) {
	if limit == 0 {
		return
	}
	for i, v := range x {
		x[i] = min(max(v, -limit), limit)
	}
}

// Temperature returns what scales the queries of a position, so that attention stays
// sharp over long contexts.
//
// Source: Nakanishi, "Scalable-Softmax Is Superior for Attention"
// (arXiv:2501.19399); transformers, models/llama4/modeling_llama4.py.
func Temperature(t model.TemperatureSpec, position int) float32 {
	return float32(1 + t.Scale*math.Log1p(math.Floor(float64(position+1)/t.Floor)))
}

func (g *groupedQuery) attend(s *lane, place int) {
	nanos := g.attendNanos(s.rows[len(s.rows)-1].Position)
	if pieces := g.pieces(s, nanos); pieces > 1 {
		g.attendPieces(s, place, nanos/pieces, pieces)
		return
	}
	eachRow(s.workers(), len(s.rows), nanos, func(from, to int) {
		scratch := s.scratches.get()
		for i := from; i < to; {
			if n := g.together(s, i, to); n > 1 {
				g.attendRows(s, i, n, place, scratch)
				i += n
			} else {
				start, end := g.seen(&s.rows[i])
				q, out := s.qkv[i*g.qkv.N:], s.attn[i*g.o.K:]
				attend(&g.spec, out, q, g.sinks, s.rows[i].Table, place, start, end, scratch, s.strongestOf(i))
				i++
			}
		}
		s.scratches.put(scratch)
	})
}

// pieces is into how many pieces the heads of a row are cut, of which each takes so long: where there are fewer rows
// than threads.
func (g *groupedQuery) pieces(s *lane, nanos int) int {
	n := len(s.rows)
	if s.keys || n == 0 {
		return 1
	}
	return even(g.spec.KVHeads, s.workers().parts(n*nanos)/n)
}

// attendPieces is attend of each row by itself, piece by piece.
func (g *groupedQuery) attendPieces(s *lane, place, nanos, pieces int) {
	heads := headsOf(&g.spec)
	eachRow(s.workers(), len(s.rows)*pieces, nanos, func(from, to int) {
		scratch := s.scratches.get()
		for i := from; i < to; i++ {
			row, piece := i/pieces, i%pieces
			start, end := g.seen(&s.rows[row])
			start, end = scratch.take(heads, s.rows[row].Table, place, start, end)
			cpu.AttendHeads(g.spec.Cache, s.attn[row*g.o.K:], s.qkv[row*g.qkv.N:], heads, piece*heads.KV/pieces, (piece+1)*heads.KV/pieces,
				scratch.pages, start, end, g.spec.Scale, g.sinks, scratch.floats)
		}
		s.scratches.put(scratch)
	})
}

// seen returns the positions [start, end) that a row attends to.
func (g *groupedQuery) seen(r *Row) (start, end int) {
	if g.spec.Bidirectional {
		return 0, r.Source
	}
	return g.spec.First(r.Position), r.Position + 1
}

// together returns how many rows from row i on attend together: they follow each other in a
// sequence, and see all of it from its beginning.
func (g *groupedQuery) together(s *lane, i, to int) int {
	if g.spec.Bidirectional || s.keys {
		return 1
	}
	first := &s.rows[i]
	most := min(to-i, headsOf(&g.spec).AttendsRows())
	for n := 1; n < most; n++ {
		if r := &s.rows[i+n]; r.Table != first.Table || r.Position != first.Position+n || g.spec.First(r.Position) > 0 {
			return n
		}
	}
	return most
}

func (g *groupedQuery) attendRows(s *lane, i, n, place int, scratch *attendScratch) {
	sp, heads, end := &g.spec, headsOf(&g.spec), s.rows[i].Position+1
	scratch.pages = s.rows[i].Table.Layer(scratch.pages[:0], place, 0, end+n-1)
	scratch.floats = reuse.Slice(scratch.floats, cpu.AttendRowsScratch(heads, n, end))
	cpu.AttendRows(sp.Cache, s.attn[i*g.o.K:], g.o.K, s.qkv[i*g.qkv.N:], g.qkv.N, n, heads, scratch.pages, end, sp.Scale, g.sinks, scratch.floats)
}

func headsOf(sp *model.MixerSpec) cpu.Heads {
	return cpu.Heads{KV: sp.KVHeads, Group: sp.Heads / sp.KVHeads, Dim: sp.HeadDim}
}

// attend is out (H·C) of the query q (H·C) over the positions [start, end) of a
// layer of the cache.
func attend(sp *model.MixerSpec, out, q, sinks []float32, table *kvcache.Table, layer, start, end int, scratch *attendScratch, strongest *int32) {
	heads := headsOf(sp)
	before := start / cpu.PagePositions * cpu.PagePositions
	start, end = scratch.take(heads, table, layer, start, end)
	if strongest == nil {
		cpu.AttendKept(sp.Cache, nil, out, q, heads, scratch.pages, start, end, sp.Scale, sinks, scratch.floats)
		return
	}
	scratch.weights = reuse.Slice(scratch.weights, end)
	cpu.AttendKept(sp.Cache, scratch.weights, out, q, heads, scratch.pages, start, end, sp.Scale, sinks, scratch.floats)
	*strongest = int32(before + start + largest(scratch.weights[start:]))
}

// take gets what attention over the positions [start, end) of a layer of the cache needs. Whole pages before the first
// that is seen change no bit: they are left out, and it returns the positions within the others.
func (s *attendScratch) take(heads cpu.Heads, table *kvcache.Table, layer, start, end int) (_, _ int) {
	s.pages = table.Layer(s.pages[:0], layer, start, end)
	before := start / cpu.PagePositions * cpu.PagePositions
	s.floats = reuse.Slice(s.floats, cpu.AttendScratch(heads, end-before))
	return start - before, end - before
}
