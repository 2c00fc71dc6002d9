package distill

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// unit is one student.
type unit struct {
	layer, index int // of the model, and among the recorded ones
	way, group   int
	experts      []int32
	stage        stage // what it has learnt so far
}

// stage is how far a student has learnt.
type stage int

const (
	first stage = iota // from the experts' outputs
	last               // from what the whole model says, too
)

func (u *unit) member(expert int32) int { return slices.Index(u.experts, expert) }

// teacher is a distillation on its way.
type teacher struct {
	Settings
	parts  split
	kept   *parts
	orders map[[2]int][]int32 // of experts, by way and index of a layer; none: by their numbers
	learnt *course            // of the way whose students have learnt from the whole model
}

// Run distils all groups of all ways, and leaves a file for each way in Out.
func Run(ctx context.Context, s Settings) (map[int]*united.Header, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	t := &teacher{Settings: s, parts: splitSequences(s.Recording, s.Seed)}
	if len(t.parts.learn) == 0 || len(t.parts.validation) == 0 || len(t.parts.test) == 0 {
		return nil, errors.New("the recording has too few sequences to be divided 6:1:3; record more texts or more of each")
	}
	var err error
	if t.kept, err = openParts(filepath.Join(s.Out, "partial"), s.Note()+"; data "+Data(s.Recording)+"; model "+s.Model.Hash); err != nil {
		return nil, err
	}
	if err := t.group(ctx); err != nil {
		return nil, err
	}
	if err := t.all(ctx, t.units()); err != nil {
		return nil, err
	}
	if err := t.through(ctx); err != nil {
		return nil, err
	}
	return t.write()
}

// units are all students, those with most rows first.
func (t *teacher) units() (list []unit) {
	spec := &t.Model.Spec
	for i, l := range t.Recording.Layers {
		for _, way := range t.Ways {
			for g := range brownout.Groups(spec.Experts, way) {
				list = append(list, unit{layer: l, index: i, way: way, group: g, experts: t.experts(i, way, g)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b unit) int { return cmp.Compare(b.way, a.way) })
	return list
}

// all distils what is not done yet, as many at once as there are threads.
func (t *teacher) all(ctx context.Context, every []unit) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	units := slices.DeleteFunc(slices.Clone(every), t.kept.has)
	var next, done atomic.Int64
	done.Store(int64(len(every) - len(units)))
	var group sync.WaitGroup
	for range max(1, t.Threads) {
		group.Go(func() {
			if err := t.work(ctx, units, &next, func() { t.Progress("%d of %d united experts are there…", done.Add(1), len(every)) }); err != nil {
				stop(err)
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("distilling ended early; what is done is kept in %s, and the same command goes on with it: %w", t.kept.dir, err)
	}
	return nil
}

// work takes units until there are none.
func (t *teacher) work(ctx context.Context, units []unit, next *atomic.Int64, told func()) error {
	p := pool.New(1)
	defer p.Close()
	from, err := t.newSource(p)
	if err != nil {
		return err
	}
	w := &worker{teacher: t, from: from}
	for i := next.Add(1) - 1; int(i) < len(units) && ctx.Err() == nil; i = next.Add(1) - 1 {
		if err := w.do(ctx, units[i]); err != nil {
			return fmt.Errorf("group %d of layer %d by way %d: %w", units[i].group, units[i].layer, units[i].way, err)
		}
		told()
	}
	return nil
}

// worker is one goroutine's.
type worker struct {
	*teacher
	from *source
	mem  scratch
}

// do makes and keeps a student.
func (w *worker) do(ctx context.Context, u unit) error {
	if u.stage == last {
		return w.learntThrough(u)
	}
	members, err := w.members(u)
	if err != nil {
		return err
	}
	learn, err := w.from.gather(u, w.parts.learn, w.Rows, w.Loss == Eq4)
	if err != nil {
		return err
	}
	g := united.Group{Layer: u.layer, Group: u.group, Of: w.groupingOf(u), Rows: learn.n}
	if slices.Max(learn.count) == 0 {
		g.Rows = 0
		return w.kept.add(u, g, nil)
	}
	check, err := w.from.gather(u, w.parts.validation, w.Rows/6, w.Loss == Eq4)
	if err != nil {
		return err
	}
	learn.teach(members, &w.mem)
	check.teach(members, &w.mem)
	student, err := w.start(&g, members, learn, check)
	if err != nil {
		return err
	}
	if student, err = w.train(ctx, u, student, learn, check); err != nil {
		return err
	}
	student.round()
	if err := w.measure(u, &g, members, learn.count, student); err != nil {
		return err
	}
	return w.kept.add(u, g, student)
}

// members are the experts that the student stands in for.
func (t *teacher) members(u unit) (list []*net, err error) {
	for _, e := range u.experts {
		n, err := load(t.Model, u.layer, int(e))
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// load reads an expert of the model.
func load(m *model.Model, layer, expert int) (*net, error) {
	var all [3][]float32
	for i, role := range []model.Role{model.ExpertGate, model.ExpertUp, model.ExpertDown} {
		w, err := m.Floats(model.Ref{Role: role, Layer: layer, Expert: expert})
		if err != nil {
			return nil, err
		}
		all[i] = w
	}
	return newNet(m.Spec.Hidden, m.Spec.Layer[layer].Expert.Width, slices.Concat(all[0], all[1]), slices.Clone(all[2])), nil
}

// start is the first network of a student.
func (w *worker) start(g *united.Group, members []*net, learn, check *rows) (best *net, err error) {
	names := []string{w.Start}
	if w.Start == Best {
		names = starts
	}
	for _, name := range names {
		n, err := start(name, members, learn.count)
		if err != nil {
			return nil, err
		}
		if loss := check.loss(n, &w.mem); best == nil || loss < g.First {
			best, g.Start, g.First = n, name, loss
		}
	}
	return best, nil
}

// train goes over the rows until that no longer helps, and returns the best it had.
func (w *worker) train(ctx context.Context, u unit, n *net, learn, check *rows) (*net, error) {
	norm := learn.norm()
	if norm == 0 {
		return n, nil
	}
	var b rows
	best, least, since := snapshot(n), check.loss(n, &w.mem), 0
	batches := (learn.n + w.Batch - 1) / w.Batch
	for pass, step := 0, 0; pass < w.Passes && since < w.Patience; pass++ {
		seed := rand.NewPCG(w.Seed, uint64(u.layer)<<40|uint64(u.way)<<20|uint64(u.group)|uint64(pass)<<52)
		for order := range slices.Chunk(rand.New(seed).Perm(learn.n), w.Batch) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			learn.batch(order, &b)
			rate := 0.5 * (1 + math.Cos(math.Pi*float64(step)/float64(batches*w.Passes)))
			n.learn(&b, norm, w.Rate*float32(rate), &w.mem)
			step++
		}
		if loss := check.loss(n, &w.mem); loss < least {
			best, least, since = snapshot(n), loss, 0
		} else {
			since++
		}
	}
	return best, nil
}

func snapshot(n *net) *net { return newNet(n.d, n.f, slices.Clone(n.in.W), slices.Clone(n.down.W)) }

// measure tells what a student costs on rows that it has not seen, beside dropping (1 by how
// errors are told), averaged weights and the busiest member alone. What each member's rows cost is of the
// validation rows: brownouts choose by it, and the others are to measure them.
func (w *worker) measure(u unit, g *united.Group, members []*net, count []int, student *net) error {
	test, err := w.from.gather(u, w.parts.test, w.Rows/3, false)
	if err != nil {
		return err
	}
	test.teach(members, &w.mem)
	g.HeldOut, g.Error = test.n, test.loss(student, &w.mem)
	for name, into := range map[string]*float64{Mean: &g.Averaged, Busiest: &g.Busiest} {
		other, err := start(name, members, count)
		if err != nil {
			return err
		}
		*into = test.loss(other, &w.mem)
	}
	g.Experts = nil
	check, err := w.from.gather(u, w.parts.validation, w.Rows/6, false)
	if err != nil {
		return err
	}
	every, err := w.from.gather(u, w.parts.test, w.Rows/12, true)
	if err != nil {
		return err
	}
	distance, norm := 0.0, 0.0
	for m, e := range members {
		c := cost(check, m, e, student, &w.mem)
		c.Expert = int(u.experts[m])
		g.Experts = append(g.Experts, c)
		all := cost(every, m, e, student, &w.mem)
		distance, norm = distance+all.Distance, norm+all.Norm
	}
	g.Members = share(distance, norm)
	return nil
}

// cost is what a member's rows lose.
func cost(r *rows, m int, e, student *net, s *scratch) (c united.Cost) {
	var own []float32
	r.each(m, e, s, func(_ int, y []float32) { own = append(own, y...) })
	r.each(m, student, s, func(_ int, y []float32) {
		for i, v := range y {
			t := float64(own[c.Rows*r.d+i])
			c.Distance += (float64(v) - t) * (float64(v) - t)
			c.Norm += t * t
		}
		c.Rows++
	})
	if c.Rows > 0 {
		c.Distance, c.Norm = c.Distance/float64(c.Rows), c.Norm/float64(c.Rows)
	}
	return c
}

// unitsOf are the students of a way.
func (t *teacher) unitsOf(way int, at stage) []unit {
	units := slices.DeleteFunc(t.units(), func(u unit) bool { return u.way != way })
	for i := range units {
		units[i].stage = at
	}
	return units
}

// file is the united experts of a way.
func (t *teacher) file(way int) (*united.Header, []byte, error) {
	h := &united.Header{Model: t.Model.Hash, Way: way, Experts: t.Model.Spec.Experts, Loss: t.Loss, Data: Data(t.Recording), Note: t.Note()}
	at := first
	if t.Through > 0 {
		at = last
	}
	for _, u := range t.unitsOf(way, at) {
		g, _, err := t.kept.read(u)
		if err != nil {
			return nil, nil, err
		}
		h.Table = append(h.Table, g)
	}
	var body bytes.Buffer
	err := united.Write(&body, &t.Model.Spec, *h, func(layer, group int) (united.Weights, error) {
		_, w, err := t.kept.read(unit{layer: layer, way: way, group: group, stage: at})
		return w, err
	})
	return h, body.Bytes(), err
}

// write makes a file of each way, and forgets the parts.
func (t *teacher) write() (map[int]*united.Header, error) {
	all := map[int]*united.Header{}
	for _, way := range t.Ways {
		h, body, err := t.file(way)
		if err == nil {
			err = replace(filepath.Join(t.Out, united.Name(way)), body)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the united experts of way %d: %w", way, err)
		}
		all[way] = h
	}
	if err := os.RemoveAll(t.kept.dir); err != nil {
		return nil, fmt.Errorf("removing what was kept on the way: %w", err)
	}
	return all, nil
}
