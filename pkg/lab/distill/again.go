package distill

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

const (
	// brownedTogether is how many sequences are browned out at a time, at one threshold.
	brownedTogether = 16
	// brownedRows is how many rows are split together, as if they decoded together.
	brownedRows = 64
	// brownedMost is the highest threshold that is drawn, in millionths.
	brownedMost = 600_000
)

// spoilt are a layer's rows as brownouts of the layers before it leave them.
type spoilt struct {
	x, lack []byte    // (n, D) in bf16: what the gate sees, and what the row lacks of what it is without brownouts
	expert  []int32   // (n, k): whose rows a united expert computes; forward.NoExpert: they have their own
	weight  []float32 // (n, k)
}

// browned are such rows by layer, to learn from and to check by.
type browned struct{ learn, check []spoilt }

// again teaches all students a second time, by rows that brownouts of earlier layers have spoilt.
func (t *teacher) again(ctx context.Context) error {
	for _, way := range t.Ways {
		units := slices.DeleteFunc(t.units(), func(u unit) bool { return u.way != way })
		for i := range units {
			units[i].again = true
		}
		if t.Browned == 0 || !slices.ContainsFunc(units, func(u unit) bool { return !t.kept.has(u) }) {
			continue
		}
		var err error
		if t.spoilt, err = t.brown(ctx, way); err != nil {
			return fmt.Errorf("browning out rows by way %d: %w", way, err)
		}
		if err := t.all(ctx, units); err != nil {
			return err
		}
	}
	t.spoilt = nil
	return nil
}

// brown computes sequences without and with a brownout, by the students of the first time.
func (t *teacher) brown(ctx context.Context, way int) (*browned, error) {
	_, body, err := t.file(way, false)
	if err != nil {
		return nil, err
	}
	bundle, err := united.Parse(body, t.Model)
	if err != nil {
		return nil, err
	}
	p := pool.New(max(1, t.Threads))
	defer p.Close()
	b := &browner{teacher: t, way: way, bundle: bundle, random: rand.New(rand.NewPCG(t.Seed, uint64(way)<<8))}
	if err := b.open(ctx, p); err != nil {
		return nil, err
	}
	out := &browned{}
	if out.learn, err = b.spoil(ctx, t.parts.learn, t.Browned); err == nil {
		out.check, err = b.spoil(ctx, t.parts.validation, t.Browned/6)
	}
	return out, err
}

// browner computes sequences twice.
type browner struct {
	*teacher
	way     int
	bundle  *united.Bundle
	experts *united.Experts
	runner  *direct.Runner
	random  *rand.Rand

	split     brownout.Splitter
	threshold int
	whole     [][]float32 // residual of each layer, without a brownout
	into      []spoilt
	browns    bool
	count     []int32
}

func (b *browner) open(ctx context.Context, p *pool.Pool) (err error) {
	first, longest := b.Recording.Sequences(), 0
	for i := range len(first) - 1 {
		longest = max(longest, first[i+1]-first[i])
	}
	on := device.NewCPU(b.Model, p, device.Settings{})
	if err := device.LoadAll(ctx, on, b.Model.Spec); err != nil {
		return fmt.Errorf("loading the experts: %w", err)
	}
	b.experts = united.NewExperts(on, p, b.Model.Spec.Experts)
	if err := b.experts.Use(b.bundle); err != nil {
		return err
	}
	shape := kvcache.ShapeOf(&b.Model.Spec)
	b.whole, b.count = make([][]float32, len(b.Recording.Layers)), make([]int32, b.Model.Spec.Experts)
	b.runner, err = direct.New(b.Model, p, direct.Settings{
		Wire: tensor.BF16, MaxPositions: longest + 1, KVBytes: int64(brownedTogether*shape.Need(longest+1)) * shape.PageBytes(),
		On: direct.Parts{Experts: b.experts}, Redirect: b.redirect,
	})
	return err
}

// spoil computes sequences until there are so many rows.
func (b *browner) spoil(ctx context.Context, spans []span, most int) ([]spoilt, error) {
	b.into = make([]spoilt, len(b.Recording.Layers))
	rows := 0
	for some := range slices.Chunk(spans, brownedTogether) {
		if rows >= most {
			break
		}
		b.Progress("browning out rows by way %d, %d of %d…", b.way, rows, most)
		b.threshold = b.random.IntN(brownedMost + 1)
		for _, b.browns = range []bool{false, true} {
			n, err := b.step(ctx, some)
			if err != nil {
				return nil, err
			}
			if b.browns {
				rows += n
			}
		}
	}
	return b.into, nil
}

// step computes sequences whole.
func (b *browner) step(ctx context.Context, spans []span) (rows int, err error) {
	var all []*direct.Sequence
	defer func() {
		for _, s := range all {
			s.Close()
		}
	}()
	for _, sp := range spans {
		ids := make([]uint32, 0, sp.to-sp.from)
		for row := sp.from; row < sp.to; row++ {
			id := b.Recording.Row(row).Token
			if int64(id) >= int64(b.Model.Spec.Vocab) {
				return 0, fmt.Errorf("row %d of the recording has token %d, and the model has %d; record it anew", row, id, b.Model.Spec.Vocab)
			}
			ids = append(ids, id)
		}
		s, err := b.runner.Add(ids, 1, sampling.Params{})
		if err != nil {
			return 0, err
		}
		all, rows = append(all, s), rows+len(ids)
	}
	return rows, b.runner.Step(ctx, all)
}

// redirect is direct.Settings.Redirect: it keeps what rows are without a brownout, or what they
// lack with it.
func (b *browner) redirect(layer int, x []float32, r *forward.Routes) error {
	i, now := slices.Index(b.Recording.Layers, layer), b.runner.Residual()
	if !b.browns {
		b.whole[i] = append(b.whole[i][:0], now...)
		return nil
	}
	lack := b.whole[i]
	for k, v := range now {
		lack[k] -= v
	}
	s := &b.into[i]
	s.x, s.lack = appendBF16(s.x, x), appendBF16(s.lack, lack)
	at := len(s.expert)
	s.expert, s.weight = append(s.expert, r.Expert...), append(s.weight, r.Weight...)
	blocks := max(1, r.Rows()/brownedRows)
	for block := range blocks {
		if err := b.hand(layer, r, s.expert[at:], block, blocks); err != nil {
			return err
		}
	}
	return nil
}

// hand hands the rows of a block over, and notes whose have their own experts.
func (b *browner) hand(layer int, r *forward.Routes, noted []int32, first, step int) error {
	clear(b.count)
	for row := first; row < r.Rows(); row += step {
		for _, e := range r.Expert[row*r.K : (row+1)*r.K] {
			b.count[e]++
		}
	}
	d, err := b.split.Split(brownout.Settings{
		Strategy: brownout.Partial, Way: b.way, Threshold: b.threshold, Without: b.bundle.Without(layer), Grouping: b.bundle.Grouping(layer),
	}, brownout.Rows{Count: b.count})
	if err != nil {
		return err
	}
	for row := first; row < r.Rows(); row += step {
		from, to := row*r.K, (row+1)*r.K
		for k, e := range noted[from:to] {
			if d.Fate[e] != brownout.United {
				noted[from+k] = forward.NoExpert
			}
		}
		d.Redirect(r.Expert[from:to], r.Weight[from:to])
	}
	return nil
}

func appendBF16(to []byte, x []float32) []byte {
	at := len(to)
	to = append(to, make([]byte, 2*len(x))...)
	cpu.ToBF16(to[at:], x)
	return to
}

// again improves a student that has learnt once.
func (w *worker) again(ctx context.Context, u unit) error {
	before := u
	before.again = false
	g, weights, err := w.kept.read(before)
	if err != nil {
		return err
	}
	if g.Rows == 0 {
		return w.kept.add(u, g, nil)
	}
	members, err := w.members(u)
	if err != nil {
		return err
	}
	check := w.from.spoilt(u, w.spoilt.check[u.index], nil)
	student, learn, err := w.relearnt(ctx, u, weights, members, check)
	if err != nil {
		return err
	}
	g.Rows = learn.n
	student.round()
	if err := w.measure(u, &g, members, learn.count, student); err != nil {
		return err
	}
	return w.kept.add(u, g, student)
}

// relearnt is a student after rows that are spoilt and as many that are not.
func (w *worker) relearnt(ctx context.Context, u unit, weights united.Weights, members []*net, check *rows) (*net, *rows, error) {
	spoiled := w.spoilt.learn[u.index]
	learn, err := w.from.gather(u, w.parts.learn, min(w.Rows, max(1, w.from.spoilt(u, spoiled, nil).n)), false)
	if err != nil {
		return nil, nil, err
	}
	learn = w.from.spoilt(u, spoiled, learn)
	learn.teach(members, &w.mem)
	check.teach(members, &w.mem)
	student := netOf(w.Recording.Hidden, weights)
	if check.n == 0 {
		return student, learn, nil
	}
	student, err = w.train(ctx, u, student, learn, check)
	return student, learn, err
}

// spoilt adds the rows of a layer whose experts of a unit are handed over to others.
func (s *source) spoilt(u unit, of spoilt, to *rows) *rows {
	d, k := s.r.Hidden, s.r.TopK
	if to == nil {
		to = &rows{d: d, way: len(u.experts), count: make([]int, len(u.experts))}
	}
	to.whole = to.n
	x, lack := make([]float32, d), make([]float32, d)
	for row := range len(of.expert) / k {
		cpu.FromBF16(x, of.x[row*2*d:(row+1)*2*d])
		n := to.n
		if to.take(u, x, of.expert[row*k:(row+1)*k], of.weight[row*k:(row+1)*k], false); to.n > n {
			cpu.FromBF16(lack, of.lack[row*2*d:(row+1)*2*d])
			to.lack = append(to.lack, lack...)
		}
	}
	return to
}

// netOf is a student as it was kept.
func netOf(d int, w united.Weights) *net {
	f := len(w.Gate) / 2 / d
	in, down := make([]float32, 2*f*d), make([]float32, f*d)
	cpu.FromBF16(in[:f*d], w.Gate)
	cpu.FromBF16(in[f*d:], w.Up)
	cpu.FromBF16(down, w.Down)
	return newNet(d, f, in, down)
}

// file is the united experts of a way as they were learnt once, or again.
func (t *teacher) file(way int, again bool) (*united.Header, []byte, error) {
	h := &united.Header{Model: t.Model.Hash, Way: way, Experts: t.Model.Spec.Experts, Loss: t.Loss, Data: Data(t.Recording), Note: t.Note()}
	units := slices.DeleteFunc(t.units(), func(u unit) bool { return u.way != way })
	for _, u := range units {
		u.again = again
		g, _, err := t.kept.read(u)
		if err != nil {
			return nil, nil, err
		}
		h.Table = append(h.Table, g)
	}
	var body bytes.Buffer
	err := united.Write(&body, &t.Model.Spec, *h, func(layer, group int) (united.Weights, error) {
		_, w, err := t.kept.read(unit{layer: layer, way: way, group: group, again: again})
		return w, err
	})
	return h, body.Bytes(), err
}
