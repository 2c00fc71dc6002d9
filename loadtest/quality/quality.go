package quality

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// Line is one setting's.
type Line struct {
	Way       string  `json:"way"`
	Threshold float64 `json:"threshold"`
	Batch     int     `json:"batch"`
	Tokens    int     `json:"tokens"`
	// Perplexity is of all tokens; Rise is what it has risen by, as a share of that at threshold 1,
	// with half of the 95 % interval.
	Perplexity   float64            `json:"perplexity"`
	Rise         float64            `json:"perplexity_rise"`
	RiseInterval float64            `json:"perplexity_rise_interval"`
	Domains      map[string]float64 `json:"perplexity_by_domain"`
	// Top1 is the share of tokens that are the most probable one. Points are what it has lost,
	// Loss is that as a share of it (as table I has it), and Interval half of the 95 % interval of Points.
	Top1     float64 `json:"top1"`
	Points   float64 `json:"top1_points"`
	Loss     float64 `json:"top1_loss"`
	Interval float64 `json:"top1_points_interval"`
	// Choice is the share of true continuations found among four; ChoiceLoss as Loss.
	Choice         float64 `json:"choice"`
	ChoicePoints   float64 `json:"choice_points"`
	ChoiceLoss     float64 `json:"choice_loss"`
	ChoiceInterval float64 `json:"choice_points_interval"`
	Choices        int     `json:"choices"`
	// Tasks are those with questions, by name.
	Tasks map[string]TaskLine `json:"tasks,omitempty"`
	// Accesses are those of decode as a share of those at threshold 1, Degraded the share of routed rows.
	Accesses float64 `json:"accesses_ratio"`
	Degraded float64 `json:"degraded_ratio"`
}

// measurer measures one setting after the other.
type measurer struct {
	Settings
	split   splitter
	experts *united.Experts
	runner  *direct.Runner
	texts   []text
	choices []choice
	chosen  map[string]chosen // by way and threshold

	asked    [][]choice // of each task
	answered [][]bool   // at threshold 1
}

// chosen is what was found of choices in a setting.
type chosen struct {
	right []bool
	tasks map[string]TaskLine
}

// Run measures all settings, and tells each when it is there. Threshold 1 comes first.
func Run(ctx context.Context, s Settings, tell func(Line) error) error {
	if err := s.Check(); err != nil {
		return err
	}
	m := &measurer{Settings: s, chosen: map[string]chosen{}}
	if err := m.open(ctx); err != nil {
		return err
	}
	base, err := m.base(ctx)
	if err != nil {
		return err
	}
	for _, batch := range s.Batches {
		one, err := m.decode(ctx, s.Ways[0], brownout.One, batch)
		if err != nil {
			return err
		}
		if err := m.sweep(ctx, batch, one, base, tell); err != nil {
			return err
		}
	}
	return nil
}

// base makes all choices at threshold 1.
func (m *measurer) base(ctx context.Context) (base chosen, err error) {
	if base.right, err = m.choose(ctx, m.Ways[0], brownout.One, m.choices); err != nil {
		return base, err
	}
	for i, list := range m.asked {
		m.Progress("task %s, %d questions…", m.Tasks[i].Name, len(list))
		right, err := m.choose(ctx, m.Ways[0], brownout.One, list)
		if err != nil {
			return base, err
		}
		m.answered = append(m.answered, right)
	}
	base.tasks, err = m.taskLines(func(i int) ([]bool, error) { return m.answered[i], nil })
	return base, err
}

// sweep measures all ways and thresholds at a batch, beside threshold 1.
func (m *measurer) sweep(ctx context.Context, batch int, one *outcome, base chosen, tell func(Line) error) error {
	for _, way := range m.Ways {
		for _, threshold := range m.Thresholds {
			m.Progress("batch %d, way %s, threshold %.2f…", batch, way, float64(threshold)/brownout.One)
			got, made, err := m.setting(ctx, way, threshold, batch, one, base)
			if err != nil {
				return err
			}
			l := m.line(one, got, base, made)
			l.Way, l.Threshold, l.Batch = way, float64(threshold)/brownout.One, batch
			if err := tell(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// setting measures one way and threshold. Choices do not depend on the batch.
func (m *measurer) setting(ctx context.Context, way string, threshold, batch int, one *outcome, base chosen) (got *outcome, made chosen, err error) {
	if threshold == brownout.One {
		return one, base, nil
	}
	if got, err = m.decode(ctx, way, threshold, batch); err != nil {
		return nil, made, err
	}
	key := fmt.Sprint(way, " ", threshold)
	made, ok := m.chosen[key]
	if ok {
		return got, made, nil
	}
	if made.right, err = m.choose(ctx, way, threshold, m.choices); err != nil {
		return nil, made, err
	}
	made.tasks, err = m.taskLines(func(i int) ([]bool, error) { return m.choose(ctx, way, threshold, m.asked[i]) })
	m.chosen[key] = made
	return got, made, err
}

func (m *measurer) open(ctx context.Context) error {
	domains := heldOut(m.Recording, m.Seed, max(m.Length, min(longest, m.Model.Spec.MaxPositions)))
	var err error
	if m.texts, err = texts(domains, m.Sequences, m.Length); err != nil {
		return err
	}
	m.choices = choices(domains, m.Length, m.Choices)
	if err = m.openTasks(); err != nil {
		return err
	}
	cpu := device.NewCPU(m.Model, m.Pool, device.Settings{})
	if err := device.LoadAll(ctx, cpu, m.Model.Spec); err != nil {
		return fmt.Errorf("loading the experts: %w", err)
	}
	m.experts = united.NewExperts(cpu, m.Pool, m.Model.Spec.Experts)
	m.split = splitter{Settings: &m.Settings, distances: map[int][][]float64{}, without: map[int][][]bool{}, grouping: map[int][]*brownout.Grouping{}}
	if m.split.router, err = forward.LoadRouter(m.Model, m.Pool); err != nil {
		return err
	}
	for way, b := range m.Bundles {
		for l := range m.Model.Spec.Layer {
			m.split.distances[way] = append(m.split.distances[way], b.Distances(l))
			m.split.without[way] = append(m.split.without[way], b.Without(l))
			m.split.grouping[way] = append(m.split.grouping[way], b.Grouping(l))
		}
	}
	shape := kvcache.ShapeOf(&m.Model.Spec)
	sequences, length := max(slices.Max(m.Batches), mostOptions), m.Length
	for _, list := range append(m.asked, m.choices) {
		for _, c := range list {
			length = max(length, c.rows())
		}
	}
	m.runner, err = direct.New(m.Model, m.Pool, direct.Settings{
		Wire: m.Wire, MaxPositions: length + 1, KVBytes: int64(sequences) * int64(shape.Need(length+1)) * shape.PageBytes(),
		On: direct.Parts{Experts: m.experts}, Redirect: m.split.redirect,
	})
	return err
}

// use sets what is measured next.
func (m *measurer) use(way string, threshold int) error {
	m.split.begin(way, threshold)
	n, err := strconv.Atoi(way)
	if err != nil {
		return m.experts.Use(nil)
	}
	return m.experts.Use(m.Bundles[n])
}

// outcome is what became of each token.
type outcome struct {
	nats                       []float64
	right                      []bool
	domain                     []int
	before, after, total, kept int
}

// decode feeds the texts token by token, so many at a time.
func (m *measurer) decode(ctx context.Context, way string, threshold, batch int) (*outcome, error) {
	if err := m.use(way, threshold); err != nil {
		return nil, err
	}
	out := &outcome{}
	for group := range slices.Chunk(m.texts, batch) {
		if err := m.decodeGroup(ctx, group, out); err != nil {
			return nil, err
		}
	}
	s := &m.split
	out.before, out.after, out.total, out.kept = s.before, s.after, s.total, s.kept
	return out, nil
}

var greedy = sampling.Params{TopP: 1, Logprobs: -1}

func (m *measurer) decodeGroup(ctx context.Context, group []text, out *outcome) error {
	var open []*direct.Sequence
	var of []text
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	for _, t := range group {
		s, err := m.runner.Add(t.ids[:1], len(t.ids), greedy)
		if err != nil {
			return err
		}
		open, of = append(open, s), append(of, t)
	}
	for at := 1; len(open) > 0; at++ {
		if err := m.runner.Rows(ctx, open, func(row int, logits []float32) {
			nats, right := judge(logits, of[row].ids[at])
			out.nats, out.right, out.domain = append(out.nats, nats), append(out.right, right), append(out.domain, of[row].domain)
		}); err != nil {
			return err
		}
		n := 0
		for i, s := range open {
			if at+1 >= len(of[i].ids) {
				s.Close()
				continue
			}
			s.IDs = append(s.IDs, of[i].ids[at])
			open[n], of[n] = s, of[i]
			n++
		}
		open, of = open[:n], of[:n]
	}
	return nil
}

// judge says how many nats the true token takes, and whether it is the most probable.
func judge(logits []float32, id uint32) (nats float64, right bool) {
	most, best := logits[0], 0
	for i, v := range logits {
		if v > most {
			most, best = v, i
		}
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v - most))
	}
	return math.Log(sum) - float64(logits[id]-most), best == int(id)
}

// choose says of each choice whether the true continuation is the most probable. Those of a choice are one
// microbatch, as prompts are.
func (m *measurer) choose(ctx context.Context, way string, threshold int, list []choice) (right []bool, err error) {
	if err := m.use(way, threshold); err != nil {
		return nil, err
	}
	for _, c := range list {
		best, least := 0, math.Inf(1)
		nats, err := m.prefill(ctx, c)
		if err != nil {
			return nil, err
		}
		for k, n := range nats {
			if n/c.weight[k] < least {
				best, least = k, n/c.weight[k]
			}
		}
		right = append(right, best == c.right)
	}
	return right, nil
}

// prefill is what each continuation takes.
func (m *measurer) prefill(ctx context.Context, c choice) (nats []float64, err error) {
	var open []*direct.Sequence
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	for _, ids := range c.whole {
		s, err := m.runner.Add(ids, 1, greedy)
		if err != nil {
			return nil, err
		}
		open = append(open, s)
	}
	nats = make([]float64, len(c.whole))
	k, at := 0, 0
	err = m.runner.Rows(ctx, open, func(_ int, logits []float32) {
		if at++; at == len(c.whole[k]) {
			k, at = k+1, 0
		} else if at >= c.from[k] {
			n, _ := judge(logits, c.whole[k][at])
			nats[k] += n
		}
	})
	return nats, err
}

// line compares a setting with threshold 1.
func (m *measurer) line(one, got *outcome, base, made chosen) (l Line) {
	l.Tokens, l.Choices, l.Domains = len(got.nats), len(made.right), map[string]float64{}
	sums, counts := make([]float64, len(m.Recording.Domains)), make([]float64, len(m.Recording.Domains))
	diff, points := make([]float64, len(got.nats)), make([]float64, len(got.nats))
	top1 := 0.0
	for i, n := range got.nats {
		sums[got.domain[i]] += n
		counts[got.domain[i]]++
		diff[i], points[i] = n-one.nats[i], number(one.right[i])-number(got.right[i])
		l.Top1, top1 = l.Top1+number(got.right[i]), top1+number(one.right[i])
	}
	all := 0.0
	for d, n := range counts {
		if n > 0 {
			l.Domains[m.Recording.Domains[d]] = math.Exp(sums[d] / n)
		}
		all += sums[d]
	}
	n := float64(max(1, l.Tokens))
	l.Perplexity, l.Top1, top1 = math.Exp(all/n), l.Top1/n, top1/n
	mean, half := interval(diff)
	l.Rise, l.RiseInterval = math.Expm1(mean), math.Exp(mean)*half
	l.Points, l.Interval = interval(points)
	l.Loss = ratio(l.Points, top1)
	l.Choice, l.ChoicePoints, l.ChoiceInterval, l.ChoiceLoss = lost(base.right, made.right)
	l.Tasks = made.tasks
	l.Accesses, l.Degraded = ratio(float64(got.after), float64(got.before)), ratio(float64(got.total-got.kept), float64(got.total))
	return l
}

// interval is a mean, and half of its 95 % interval.
func interval(ns []float64) (mean, half float64) {
	if len(ns) == 0 {
		return 0, 0
	}
	n := float64(len(ns))
	for _, v := range ns {
		mean += v / n
	}
	variance := 0.0
	for _, v := range ns {
		variance += (v - mean) * (v - mean) / max(1, n-1)
	}
	return mean, 1.96 * math.Sqrt(variance/n)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
