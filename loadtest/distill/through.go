package distill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/distill/whole"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

const (
	// lanes compute the pieces of texts of a step, so many each and so long at most, whatever the number of threads.
	lanes, lanePieces, pieceRows = 2, 3, 96
	// brownedRows is how many rows are split together, as if they decoded together.
	brownedRows = 64
	// brownedMost is the highest threshold that is drawn, in millionths.
	brownedMost = 500_000
	// throughWarm is over how many steps the rate rises.
	throughWarm = 20
	// throughChecks is how often a way's students are validated, and kept.
	throughChecks = 8
)

// through has all students learn from what the whole model says.
func (t *teacher) through(ctx context.Context) error {
	if t.Through == 0 {
		return nil
	}
	var net *whole.Network
	for _, way := range t.Ways {
		units := t.unitsOf(way, last)
		if !slices.ContainsFunc(units, func(u unit) bool { return !t.kept.has(u) }) {
			continue
		}
		if net == nil {
			var err error
			if net, err = whole.Open(t.Model); err != nil {
				return err
			}
		}
		c := &course{teacher: t, way: way, net: net}
		if err := c.run(ctx); err != nil {
			return fmt.Errorf("learning from the whole model by way %d: %w", way, err)
		}
		t.learnt = c
		if err := t.all(ctx, units); err != nil {
			return err
		}
		if err := t.kept.forget(way); err != nil {
			return err
		}
	}
	return nil
}

// course is how the students of a way learn from the whole model.
type course struct {
	*teacher
	way      int
	net      *whole.Network
	students [][]*whole.Student // by layer and group; nil: the group has none
	best     [][]float32        // by student, as flat gives them
	flat     []*whole.Student
	without  [][]bool
	group    []*brownout.Grouping
	lanes    [lanes]*lane
	wanted   map[span][]byte // what the head is given without a brownout, in bf16
	locked   sync.Mutex
	pool     *pool.Pool
}

// lane computes a part of a step.
type lane struct {
	*whole.Lane
	split  brownout.Splitter
	count  []int32
	wanted []float32
	ids    [][]uint32
	off    int // threshold of the step
}

// run has the students learn from where they were ended.
func (c *course) run(ctx context.Context) error {
	if err := c.open(); err != nil {
		return err
	}
	c.pool = pool.New(max(1, c.Threads))
	defer c.pool.Close()
	steps, check := c.steps(), c.checks()
	at, least, err := c.resume()
	every := max(1, (len(steps)+throughChecks-1)/throughChecks)
	for i := at; err == nil; i++ {
		if i == 0 || i > at && i%every == 0 || i == len(steps) {
			if least, err = c.look(ctx, check, i, len(steps), least); err != nil || i == len(steps) {
				break
			}
		}
		if err = c.step(ctx, steps[i], c.threshold(i)); err == nil {
			c.update(c.rate(i, len(steps)))
		}
	}
	return err
}

// look validates the students behind a step, and keeps them. It returns the least divergence so far.
func (c *course) look(ctx context.Context, check [][]span, step, of int, least float64) (float64, error) {
	loss, err := c.validate(ctx, check)
	if err != nil {
		return least, err
	}
	if step == 0 || loss < least {
		least = loss
		c.remember()
	}
	c.Progress("way %d, %d of %d steps through the whole model: divergence %.4f, least %.4f", c.way, step, of, loss, least)
	return least, c.keep(step, least)
}

func (c *course) threshold(step int) int {
	return rand.New(rand.NewPCG(c.Seed, uint64(c.way)<<32|uint64(step))).IntN(brownedMost + 1)
}

// rate rises over the first steps, and then falls along a cosine. Pairs' students are near their experts
// already, and larger steps would take them away.
func (c *course) rate(step, of int) float32 {
	share := min(1, float64(step+1)/throughWarm) * 0.5 * (1 + math.Cos(math.Pi*float64(step)/float64(of)))
	if c.way == 2 {
		share /= 4
	}
	return c.ThroughRate * float32(share)
}

// open takes the students as they have learnt so far.
func (c *course) open() error {
	spec := &c.Model.Spec
	c.students, c.group, c.without = make([][]*whole.Student, spec.Layers), make([]*brownout.Grouping, spec.Layers), make([][]bool, spec.Layers)
	for _, u := range c.unitsOf(c.way, first) {
		g, w, err := c.kept.read(u)
		if err != nil {
			return err
		}
		var s *whole.Student
		if g.Rows > 0 {
			n := netOf(spec.Hidden, w)
			s = whole.NewStudent(n.d, n.f, n.in.W, n.down.W)
			c.flat = append(c.flat, s)
		}
		c.students[u.layer], c.without[u.layer] = append(c.students[u.layer], s), append(c.without[u.layer], s == nil)
		if order := c.orders[[2]int{c.way, u.index}]; order != nil && u.group == 0 {
			if c.group[u.layer], err = brownout.NewGrouping(order); err != nil {
				return err
			}
		}
	}
	c.wanted = map[span][]byte{}
	for i := range c.lanes {
		c.lanes[i] = &lane{Lane: c.net.NewLane(), count: make([]int32, spec.Experts)}
	}
	return nil
}

// pieces cuts sequences.
func pieces(spans []span) (all []span) {
	for _, s := range spans {
		for from := s.from; from < s.to; from += pieceRows {
			all = append(all, span{from, min(from+pieceRows, s.to)})
		}
	}
	return all
}

// steps are the pieces of each step, until there were so many rows.
func (c *course) steps() (all [][]span) {
	rows, learn := 0, pieces(c.parts.learn)
	for epoch := uint64(0); rows < c.Through; epoch++ {
		order := rand.New(rand.NewPCG(c.Seed, uint64(c.way)<<32|epoch<<48|7)).Perm(len(learn))
		for some := range slices.Chunk(order, lanes*lanePieces) {
			var step []span
			for _, i := range some {
				step = append(step, learn[i])
				rows += step[len(step)-1].to - step[len(step)-1].from
			}
			if all = append(all, step); rows >= c.Through {
				break
			}
		}
	}
	return all
}

// checks are the pieces that validate.
func (c *course) checks() (all [][]span) {
	rows := 0
	for some := range slices.Chunk(pieces(c.parts.validation), lanes*lanePieces) {
		if rows >= c.Through/60 && len(all) > 0 {
			break
		}
		all = append(all, some)
		for _, s := range some {
			rows += s.to - s.from
		}
	}
	return all
}

// each calls f with each lane and its part of a step.
func (c *course) each(ctx context.Context, spans []span, threshold int, f func(l *lane)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed [lanes]error
	each := (len(spans) + lanes - 1) / lanes
	c.pool.Run(lanes, func(i int) {
		l := c.lanes[i]
		part := spans[min(i*each, len(spans)):min((i+1)*each, len(spans))]
		if l.off, l.ids = threshold, l.ids[:0]; len(part) == 0 {
			return
		}
		if failed[i] = c.want(l, part); failed[i] != nil {
			return
		}
		if failed[i] = l.Forward(l.ids, c.decide(l)); failed[i] == nil {
			f(l)
		}
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// want fills a lane's tokens and what they are without a brownout.
func (c *course) want(l *lane, part []span) error {
	for _, s := range part {
		ids := make([]uint32, 0, s.to-s.from)
		for row := s.from; row < s.to; row++ {
			id := c.Recording.Row(row).Token
			if int64(id) >= int64(c.Model.Spec.Vocab) {
				return fmt.Errorf("row %d of the recording has token %d, and the model has %d; record it anew", row, id, c.Model.Spec.Vocab)
			}
			ids = append(ids, id)
		}
		l.ids = append(l.ids, ids)
	}
	l.wanted = l.wanted[:0]
	for i, s := range part {
		c.locked.Lock()
		had, ok := c.wanted[s]
		c.locked.Unlock()
		if !ok {
			if err := l.Forward(l.ids[i:i+1], nil); err != nil {
				return err
			}
			had = appendBF16(nil, l.Hidden())
			c.locked.Lock()
			c.wanted[s] = had
			c.locked.Unlock()
		}
		at := len(l.wanted)
		l.wanted = append(l.wanted, make([]float32, len(had)/2)...)
		cpu.FromBF16(l.wanted[at:], had)
	}
	return nil
}

func appendBF16(to []byte, x []float32) []byte {
	at := len(to)
	to = append(to, make([]byte, 2*len(x))...)
	cpu.ToBF16(to[at:], x)
	return to
}

// decide is a brownout of a lane's rows, in blocks that have rows of all of its sequences.
func (c *course) decide(l *lane) whole.Decider {
	return func(layer int, r *forward.Routes) ([]*whole.Student, func(int32) int, error) {
		blocks := max(1, r.Rows()/brownedRows)
		for block := range blocks {
			clear(l.count)
			for row := block; row < r.Rows(); row += blocks {
				for _, e := range r.Expert[row*r.K : (row+1)*r.K] {
					l.count[e]++
				}
			}
			d, err := l.split.Split(brownout.Settings{
				Strategy: brownout.Partial, Way: c.way, Threshold: l.off, Without: c.without[layer], Grouping: c.group[layer],
			}, brownout.Rows{Count: l.count})
			if err != nil {
				return nil, nil, err
			}
			for row := block; row < r.Rows(); row += blocks {
				d.Redirect(r.Expert[row*r.K:(row+1)*r.K], r.Weight[row*r.K:(row+1)*r.K])
			}
		}
		return c.students[layer], func(e int32) int { return c.group[layer].Group(int(e), c.way) }, nil
	}
}

func (c *course) step(ctx context.Context, spans []span, threshold int) error {
	return c.each(ctx, spans, threshold, func(l *lane) { l.Backward(l.wanted) })
}

// validate is the mean divergence of rows that nobody learns from, over three thresholds.
func (c *course) validate(ctx context.Context, check [][]span) (float64, error) {
	var sums [lanes]float64
	rows := 0
	for i, spans := range check {
		err := c.each(ctx, spans, brownedMost*(i%3)/2, func(l *lane) {
			sums[slices.Index(c.lanes[:], l)] += l.Divergence(l.wanted)
		})
		if err != nil {
			return 0, err
		}
		for _, s := range spans {
			rows += s.to - s.from
		}
	}
	sum := 0.0
	for _, s := range sums {
		sum += s
	}
	return sum / float64(rows), nil
}

// update goes against the mean of the lanes' gradients.
func (c *course) update(rate float32) {
	type place struct{ layer, group int }
	var all []place
	for layer := range c.students {
		for group, s := range c.students[layer] {
			if s != nil {
				all = append(all, place{layer, group})
			}
		}
	}
	c.pool.Run(len(all), func(i int) {
		at := all[i]
		s := c.students[at.layer][at.group]
		clear(s.In.Grad)
		clear(s.Down.Grad)
		for _, l := range c.lanes {
			if len(l.ids) == 0 {
				continue
			}
			if g := l.Gradients[at.layer][at.group]; g.In != nil {
				cpu.Add(s.In.Grad, g.In)
				cpu.Add(s.Down.Grad, g.Down)
			}
		}
		s.In.Step(rate)
		s.Down.Step(rate)
		s.Pack()
	})
}

func (c *course) remember() {
	c.best = c.best[:0]
	for _, s := range c.flat {
		c.best = append(c.best, slices.Concat(s.In.W, s.Down.W))
	}
}

// bestOf is a student at its best.
func (c *course) bestOf(u unit) *net {
	s := c.students[u.layer][u.group]
	if s == nil {
		return nil
	}
	w := c.best[slices.Index(c.flat, s)]
	return newNet(c.Model.Spec.Hidden, c.Model.Spec.Layer[u.layer].Expert.Width, slices.Clone(w[:len(s.In.W)]), slices.Clone(w[len(s.In.W):]))
}

// learntThrough keeps and measures a student that has learnt from the whole model.
func (w *worker) learntThrough(u unit) error {
	before := u
	before.stage = first
	g, _, err := w.kept.read(before)
	if err != nil {
		return err
	}
	student := w.learnt.bestOf(u)
	if student == nil {
		return w.kept.add(u, g, nil)
	}
	members, err := w.members(u)
	if err != nil {
		return err
	}
	count, err := w.from.gather(u, w.parts.learn, w.Rows, false)
	if err != nil {
		return err
	}
	student.round()
	if err := w.measure(u, &g, members, count.count, student); err != nil {
		return err
	}
	return w.kept.add(u, g, student)
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
