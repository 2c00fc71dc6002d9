package forward

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// latentAttention is multi-head latent attention (MLA). It caches a position's
// line: the latent of keys and values, and the rotated part of the key that all
// heads share. Keys and values are never expanded, for many rows as for one: a
// query is multiplied by its head's key expansion instead, and sums of latents by
// its value expansion, so that all rows have one order of sums.
//
// Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1 and appendix C; transformers,
// models/deepseek_v3/modeling_deepseek_v3.py.
type latentAttention struct {
	spec  model.MixerSpec
	shape cpu.Latent
	// in (Q + W, D) makes queries, or their latents, and lines.
	in        *cpu.Matrix
	queryNorm []float32     // (QRank), or nil
	queryUp   *cpu.Matrix   // (H·C, QRank), or nil
	lineNorm  []float32     // (KVRank)
	absorb    []*cpu.Matrix // of each head (KVRank, NopeDim)
	expand    []*cpu.Matrix // of each head (ValueDim, KVRank)
	o         *cpu.Matrix   // (D, H·ValueDim)
	rope      *rope
}

func loadLatent(m *model.Model, l int, r *rope) (_ *latentAttention, err error) {
	spec := m.Spec.Layer[l].Mixer
	a := &latentAttention{spec: spec, shape: cpu.Latent{Heads: spec.Heads, Rank: spec.Latent.KVRank, Rope: spec.Latent.RopeDim, Format: spec.Cache}, rope: r}
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	first := at(model.Q)
	if spec.Latent.QRank > 0 {
		first = at(model.QDown)
		if a.queryNorm, err = loadFloats(m, at(model.QDownNorm)); err != nil {
			return nil, err
		}
		if a.queryUp, err = loadMatrix(m, at(model.QUp)); err != nil {
			return nil, err
		}
	}
	if a.in, err = loadMatrix(m, first, at(model.KVDown)); err != nil {
		return nil, err
	}
	if a.lineNorm, err = loadFloats(m, at(model.KVDownNorm)); err != nil {
		return nil, err
	}
	if err = a.loadUp(m, at(model.KVUp)); err != nil {
		return nil, err
	}
	a.o, err = loadMatrix(m, at(model.O))
	return a, err
}

func (a *latentAttention) bytes() int64 {
	n := a.in.Bytes() + a.o.Bytes()
	if a.queryUp != nil {
		n += a.queryUp.Bytes()
	}
	for head := range a.absorb {
		n += a.absorb[head].Bytes() + a.expand[head].Bytes()
	}
	return n
}

func (a *latentAttention) nanos(r *Row) int {
	weights := a.in.N*a.in.K + a.o.N*a.o.K + a.shape.Heads*a.shape.Rank*(a.spec.Latent.NopeDim+a.spec.ValueDim)
	if a.queryUp != nil {
		weights += a.queryUp.N * a.queryUp.K
	}
	return 2 * (weights + 2*a.shape.Heads*a.shape.Width()*(r.Position+1)) / flopsPerNano
}

func (a *latentAttention) mix(s *lane, place int, dst, x []float32) {
	n := len(s.rows)
	s.qkv = reuse.Slice(s.qkv, n*a.in.N)
	matMul(s.workers(), s.qkv, x, n, a.in)
	eachRow(s.workers(), n, 2*a.in.N, func(from, to int) {
		for i := from; i < to; i++ {
			a.storeLine(s, i, place)
		}
	})
	s.narrow(s.qkv, a.in.N)
	if n = len(s.rows); n == 0 {
		return
	}
	q, stride := a.queries(s)
	a.absorbQueries(s, q, stride)
	a.attend(s, place)
	a.expandSums(s)
	matMul(s.workers(), dst, s.attn, n, a.o)
}

// storeLine normalises row i's latents, rotates its key, and writes its line.
func (a *latentAttention) storeLine(s *lane, i, place int) {
	r, rank := &s.rows[i], a.shape.Rank
	row := s.qkv[i*a.in.N : (i+1)*a.in.N]
	if a.queryUp != nil {
		q := row[:a.queryUp.K]
		cpu.RMSNorm(q, q, a.queryNorm, a.spec.Latent.Eps)
	}
	line := row[a.in.N-a.shape.Width():]
	cpu.RMSNorm(line[:rank], line[:rank], a.lineNorm, a.spec.Latent.Eps)
	a.rope.turn(line[rank:], 1, a.shape.Rope, r)
	r.Table.StoreLatent(place, r.Position, line)
}

// queries returns all heads' (R, H, C), the rows stride apart.
func (a *latentAttention) queries(s *lane) (q []float32, stride int) {
	if a.queryUp == nil {
		return s.qkv, a.in.N
	}
	n := len(s.rows)
	s.queries = reuse.Slice(s.queries, n*a.queryUp.N)
	matMulFrom(s.workers(), s.queries, s.qkv, a.in.N, n, a.queryUp)
	return s.queries, a.queryUp.N
}

// absorbQueries fills lines (R, H, W) with what scores of queries and lines need:
// the query times the key expansion, and its rotated part.
func (a *latentAttention) absorbQueries(s *lane, q []float32, stride int) {
	n, h, w := len(s.rows), a.shape.Heads, a.shape.Width()
	c, nope := a.spec.HeadDim, a.spec.Latent.NopeDim
	s.lines = reuse.Slice(s.lines, n*h*w)
	eachRow(s.workers(), h, matMulNanos(n, a.absorb[0]), func(from, to int) {
		for head := from; head < to; head++ {
			m := a.absorb[head]
			cpu.MatMul(s.lines[head*w:], h*w, q[head*c:], stride, n, m, 0, m.Panels())
		}
	})
	eachRow(s.workers(), n, 2*h*a.shape.Rope, func(from, to int) {
		for i := from; i < to; i++ {
			a.turnQueries(s, i, q[i*stride+nope:])
		}
	})
}

// turnQueries copies the rotated parts of row i's queries.
func (a *latentAttention) turnQueries(s *lane, i int, q []float32) {
	for head := range a.shape.Heads {
		part := s.lines[(i*a.shape.Heads+head)*a.shape.Width()+a.shape.Rank:][:a.shape.Rope]
		copy(part, q[head*a.spec.HeadDim:])
		a.rope.turn(part, 1, a.shape.Rope, &s.rows[i])
	}
}

// headsAtOnce query heads are one piece of work.
const headsAtOnce = cpu.PanelWidth

// attend fills sums (R, H, KVRank).
func (a *latentAttention) attend(s *lane, place int) {
	n, h := len(s.rows), a.shape.Heads
	s.sums = reuse.Slice(s.sums, n*h*a.shape.Rank)
	pieces := (h + headsAtOnce - 1) / headsAtOnce
	last := s.rows[n-1].Position + 1
	nanos := 4 * min(h, headsAtOnce) * a.shape.Width() * last / flopsPerNano
	eachRow(s.workers(), n*pieces, nanos, func(from, to int) {
		scratch := s.scratches.get()
		for i := from; i < to; i++ {
			a.attendHeads(s, i/pieces, i%pieces*headsAtOnce, place, scratch)
		}
		s.scratches.put(scratch)
	})
}

func (a *latentAttention) attendHeads(s *lane, i, head, place int, scratch *attendScratch) {
	shape, end := a.shape, s.rows[i].Position+1
	at := i*shape.Heads + head
	shape.Heads = min(headsAtOnce, shape.Heads-head)
	scratch.floats = reuse.Slice(scratch.floats, cpu.LatentScratch(shape, end))
	scratch.pages = s.rows[i].Table.Layer(scratch.pages[:0], place, 0, end)
	cpu.AttendLatent(s.sums[at*shape.Rank:], s.lines[at*shape.Width():], shape, scratch.pages, end, a.spec.Scale, scratch.floats)
}

// expandSums fills attn (R, H, ValueDim).
func (a *latentAttention) expandSums(s *lane) {
	n, h, rank, v := len(s.rows), a.shape.Heads, a.shape.Rank, a.spec.ValueDim
	s.attn = reuse.Slice(s.attn, n*h*v)
	eachRow(s.workers(), h, matMulNanos(n, a.expand[0]), func(from, to int) {
		for head := from; head < to; head++ {
			m := a.expand[head]
			cpu.MatMul(s.attn[head*v:], h*v, s.sums[head*rank:], h*rank, n, m, 0, m.Panels())
		}
	})
}
