package predictor

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// mapper foretells by expert maps (fMoE, arXiv:2502.05370) which experts steps will ask hosts
// for, and tells the hosts. It sees each step and its rows as attention sends them, computes
// what gates make of the rows, looks for the map of an earlier row that was most alike, and
// hints at the experts of that one. When a step is over its rows' maps are there to be found.
//
//	a step ─embeddings─▶ the map most alike ─▶ hints for layers 1 … d
//	rows at gate l ─probabilities─▶ the map most alike so far ─▶ hints for layer l+d
//
// What it hears waits in a backlog, whose oldest go first: nothing waits for a mapper, and one
// that is too slow says less.
type mapper struct {
	d       *deployment.Deployment
	config  Config
	backlog *backlog[heard]
	refused pause.ErrorLog
	metrics telemetry.MapMetrics

	// Of run alone.
	router  *forward.Router
	embeds  *forward.Embeddings
	store   *expertmap.Store
	layers  []int       // that have experts
	place   map[int]int // of each of them
	steps   map[flowID]*step
	last    map[string]lastToken // of sequences, where embeddings are pairs
	to      *hosts
	saving  *saving             // nil: there is no file
	chances map[string]*chances // by tenant
	trained predictors.Ahead

	x, probs []float32
	row      []float32 // (J)
	hints    []expertmap.Hint
	now      uint64 // counts what was heard
}

// heard is one of the two.
type heard struct {
	step *pb.Step
	rows *pb.Hidden
	at   time.Time
}

// flowID is one of an attention replica's microbatches: one step of it is under way at a time.
type flowID struct {
	owner      string
	epoch      uint64
	microbatch uint32
}

// mostFlows bounds the steps that are followed at a time.
const mostFlows = 64

func newMapper(d *deployment.Deployment, id string, c Config) (m *mapper, err error) {
	m = &mapper{d: d, config: c, backlog: newBacklog[heard](), metrics: d.Telemetry.Metrics.Maps, place: map[int]int{}, steps: map[flowID]*step{}, last: map[string]lastToken{}, chances: map[string]*chances{}}
	m.layers = d.MoELayers()
	for at, layer := range m.layers {
		m.place[layer] = at
	}
	if m.store, err = expertmap.New(c.Maps.settings(d.Model, c.Distance)); err != nil {
		return nil, err
	}
	if m.router, err = forward.LoadRouter(d.Model, d.Pool); err != nil {
		return nil, err
	}
	if m.embeds, err = forward.LoadEmbeddings(d.Model, d.Pool); err != nil {
		return nil, err
	}
	m.row = make([]float32, m.store.Experts)
	m.to = &hosts{d: d, id: id, plan: planstore.NewView(), by: map[int]*served{}, sent: map[string]uint64{}}
	if c.Maps.Chances == Learned {
		m.trained = predictors.AheadFor(d.Model, c.Weights, c.Distance)
	}
	if c.Maps.File != "" {
		m.saving = &saving{path: c.Maps.File, log: d.Logger}
		err = m.saving.restore(m.store)
	}
	return m, err
}

// announced and passed are all that whoever reads the rows waits for.
func (m *mapper) announced(s *pb.Step)   { m.put(heard{step: s}, 4*countTokens(s)) }
func (m *mapper) passed(rows *pb.Hidden) { m.put(heard{rows: rows}, len(rows.Tensor.Data)) }

func (m *mapper) put(h heard, bytes int) {
	h.at = time.Now()
	if dropped := m.backlog.put(h, bytes); dropped > 0 {
		m.d.Telemetry.Metrics.PredictionsLost.Add(float64(dropped))
	}
}

func countTokens(s *pb.Step) (n int) {
	for _, r := range s.Runs {
		n += len(r.Tokens)
	}
	return n
}

// run follows what is heard until ctx ends.
func (m *mapper) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	defer func() { m.saving.end(m.store) }()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, tenant := range m.saving.look(m.store, now) {
				delete(m.chances, tenant)
			}
		case <-m.backlog.note:
		}
		for h, ok := m.backlog.take(); ok && ctx.Err() == nil; h, ok = m.backlog.take() {
			if m.config.Late > 0 && pause.For(ctx, m.config.Late-time.Since(h.at)) != nil {
				return
			}
			m.hear(ctx, h)
		}
	}
}

func (m *mapper) hear(ctx context.Context, h heard) {
	m.now++
	err := m.d.Conn.Try("expert maps", func() error {
		if h.step != nil {
			return m.begin(ctx, h.step)
		}
		return m.pass(ctx, h.rows)
	})
	if err != nil {
		m.d.Telemetry.Metrics.Refused.Inc()
		m.refused.Error(m.d.Logger, "a step that no experts are foretold for", err)
	}
}

// begin begins a step, and foretells its first layers by what its rows begin with.
func (m *mapper) begin(ctx context.Context, s *pb.Step) error {
	id := flowID{s.Owner, s.Epoch, s.Microbatch}
	if old := m.steps[id]; old != nil && s.Step <= old.number {
		return nil // a repeat
	}
	st, err := m.newStep(s)
	if err != nil {
		return err
	}
	m.limit()
	m.steps[id] = st
	began := time.Now()
	t := m.to.tell(id, s.Step, -1)
	for _, q := range st.queries {
		match, ok := q.search.Embedding(q.embedding)
		if ok {
			m.metrics.Found("semantic", float64(match.Score))
		}
		if err := m.first(t, q, match, ok); err != nil {
			return err
		}
	}
	m.metrics.Searched("semantic", time.Since(began).Seconds())
	return t.send(ctx)
}

// first foretells a row's first layers, by the map that was found for what it begins with.
func (m *mapper) first(t *telling, q *query, match expertmap.Match, found bool) error {
	if c := m.chancesOf(q); c != nil {
		if found {
			q.semantic = m.whole(match)
		}
		return m.look(t, c, q, -1, match, found, nil)
	}
	for at := 0; found && at < m.config.Distance; at++ {
		m.foretell(t, q, match, at)
	}
	return nil
}

// whole returns a copy of a map that was found, which the store may replace.
func (m *mapper) whole(match expertmap.Match) []float32 {
	n := m.store.Experts
	all := make([]float32, m.store.Layers*n)
	for l := range m.store.Layers {
		m.store.RowInto(all[l*n:(l+1)*n], match.Index, l+1)
	}
	return all
}

// pass is for rows on their way to a gate.
func (m *mapper) pass(ctx context.Context, h *pb.Hidden) error {
	id := flowID{h.Key.Owner, h.Key.Epoch, h.Key.Microbatch}
	st := m.steps[id]
	if st == nil || st.number != h.Key.Step || h.Key.Attempt > 0 {
		return nil
	}
	first, rows := int(h.Key.Part), int(h.Key.Rows)
	if first+rows > len(st.of) {
		return fmt.Errorf("rows %d to %d of a step that was announced with %d", first, first+rows, len(st.of))
	}
	m.x = reuse.Slice(m.x, rows*m.d.Shape.Hidden)
	if err := tensor.Decode(m.x, h.Tensor, m.d.Shape.Hidden); err != nil {
		return err
	}
	m.probs = reuse.Slice(m.probs, rows*m.store.Experts)
	if err := m.router.Probabilities(int(h.Key.Layer), m.x, m.probs); err != nil {
		return err
	}
	st.seen = m.now
	at := m.place[int(h.Key.Layer)]
	return m.follow(ctx, id, st, at, st.take(at, first, rows, m.probs, m.store.Experts))
}

// follow foretells what the rows of some queries, which have passed the gate of that place,
// will ask for. With the last gate the queries' maps are whole.
func (m *mapper) follow(ctx context.Context, id flowID, st *step, at int, passed []*query) error {
	began := time.Now()
	t := m.to.tell(id, st.number, m.layers[at])
	for _, q := range passed {
		match, ok := q.search.Layer(at+1, q.layer(at, m.store.Experts))
		if ok && at+m.config.Distance < m.store.Layers {
			m.metrics.Found("trajectory", float64(match.Score))
		}
		if err := m.further(t, q, at, match, ok); err != nil {
			return err
		}
	}
	m.metrics.Searched("trajectory", time.Since(began).Seconds())
	if len(passed) == len(st.queries) {
		m.chose(t, at, passed)
	}
	err := t.send(ctx)
	if at == m.store.Layers-1 {
		m.remember(passed)
	}
	return err
}

// further foretells layers behind a gate that a row has passed, by the map that was found for what
// its gates have said.
func (m *mapper) further(t *telling, q *query, at int, match expertmap.Match, found bool) error {
	if c := m.chancesOf(q); c != nil {
		x := m.x[q.at*m.d.Shape.Hidden : (q.at+1)*m.d.Shape.Hidden]
		if err := m.learn(t, c, q, at, x); err != nil {
			return err
		}
		return m.look(t, c, q, at, match, found, x)
	}
	for target := at + m.nearest(); found && target <= min(at+m.config.Distance, m.store.Layers-1); target++ {
		m.foretell(t, q, match, target)
	}
	return nil
}

// nearest returns how many layers ahead maps foretell at least: where chances are learned, hosts follow hints for no more
// layers ahead than they have room for experts, and need those of all layers up to there.
func (m *mapper) nearest() int {
	if m.config.Maps.Chances == Learned {
		return 1
	}
	return m.config.Distance
}

// foretell hints at the experts that a map has for a layer, whose place counts from 0.
func (m *mapper) foretell(t *telling, q *query, match expertmap.Match, at int) {
	row := m.store.Row(match.Index, at+1)
	m.hints = expertmap.Select(row, match.Score, expertmap.Least(row, q.rows, m.store.TopK), m.hints[:0])
	layer := m.layers[at]
	for _, h := range m.hints {
		t.want(layer, h.Expert, expertmap.Several(q.rows, m.store.TopK, h.Probability))
	}
	for e, p := range row {
		t.know(layer, e, expertmap.Several(q.rows, m.store.TopK, p))
	}
}

// limit makes place for one more step: the one of which nothing has come for the longest goes.
func (m *mapper) limit() {
	if len(m.steps) < mostFlows {
		return
	}
	var oldest flowID
	seen := m.now + 1
	for id, st := range m.steps {
		if st.seen < seen {
			oldest, seen = id, st.seen
		}
	}
	delete(m.steps, oldest)
}

// Maps say what expert maps a predictor keeps.
type Maps struct {
	// Capacity is how many of each tenant, or of all if they are Shared; 0: none.
	Capacity int
	// Prefill is what a prompt's rows in a step have: Mean, Last or Rows; empty is Mean.
	Prefill string
	// Embedding is what stands beside a row's map: OwnEmbedding, or Pair; empty is OwnEmbedding.
	Embedding string
	// Replace says which map goes for a new one; empty is fMoE's rule.
	Replace expertmap.Replacement
	// Chances is what hosts are told of generated rows: OfMaps, or Learned; empty is OfMaps.
	Chances string
	// Shared lets a tenant's rows find the maps of all tenants.
	Shared bool
	// File has the maps that there are at the start, if it is there, and those that there are
	// from time to time; empty: none.
	File string
}

// What a prompt's rows in a step have.
const (
	Mean = "mean" // one map, the mean of theirs
	Last = "last" // that of the last one
	Rows = "rows" // one each
)

// What stands beside a map.
const (
	OwnEmbedding = "rows" // the row's own embedding
	Pair         = "pair" // the same, and a quarter of the one before it
)

// What hosts are told of generated rows.
const (
	OfMaps  = "maps"    // what the map says that is the most alike
	Learned = "learned" // chances of all that is known, each tenant's learned while it is served
)

// settings returns those of the maps of a model.
func (m Maps) settings(of *model.Model, distance int) expertmap.Settings {
	s := expertmap.Settings{Model: of.Hash, Capacity: m.Capacity, Distance: distance, Replace: m.Replace, Shared: m.Shared}
	s.Shape = expertmap.Shape{Experts: of.Spec.Experts, TopK: of.Spec.TopK, Embedding: of.Spec.Hidden}
	for _, l := range of.Spec.Layer {
		if l.MoE {
			s.Layers++
		}
	}
	return s
}

// check refuses what cannot be foretold.
func (m Maps) check(of *model.Model, distance int) error {
	if m.Capacity == 0 {
		return nil
	}
	if _, err := expertmap.New(m.settings(of, distance)); err != nil {
		return fmt.Errorf("--maps and --distance: %w", err)
	}
	return nil
}

// remember adds the maps of rows that have passed all gates.
func (m *mapper) remember(passed []*query) {
	batch, tenants := map[string][]expertmap.Map{}, []string(nil)
	for _, q := range passed {
		if !q.whole {
			continue
		}
		if batch[q.tenant] == nil {
			tenants = append(tenants, q.tenant)
		}
		batch[q.tenant] = append(batch[q.tenant], expertmap.Map{Embedding: q.embedding, Probabilities: q.probs})
	}
	for _, tenant := range tenants {
		if err := m.store.AddBatch(tenant, batch[tenant]); err != nil {
			m.refused.Error(m.d.Logger, "an expert map is not kept", err)
		}
	}
	_, counts := m.store.Owners()
	kept := 0
	for _, n := range counts {
		kept += n
	}
	m.metrics.Kept(kept, m.store.MemoryBytes())
}
