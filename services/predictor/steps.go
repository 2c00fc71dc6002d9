package predictor

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// step is one that is under way.
type step struct {
	number  uint64
	seen    uint64 // when something was heard of it last
	queries []*query
	of      []int // of each row, its query; -1: none
}

// query is a row that a map is looked for, or the mean of a prompt's rows in the step.
type query struct {
	tenant    string
	rows      int
	embedding []float32
	search    *expertmap.Search
	probs     []float32 // (L, J): its own map, as far as it is known
	next      int       // the place of the gate that its rows come to next
	got       int       // of its rows, those that have
	whole     bool      // it has missed no gate

	// Of a generated row, where chances are learned.
	sequence string // else empty
	token    uint32
	at       int                  // its place in the rows that came last
	semantic []float32            // (L, J): the map that was found by its embedding; nil: none
	said     [][]*expertmap.Guess // by layer
	chosen   []uint16             // (L, k)
	nexts    [][]float64          // by layer (J): what is said of the sequence's next row
}

// newStep asks for each row of generated tokens, and for those of prompts as is configured.
func (m *mapper) newStep(s *pb.Step) (*step, error) {
	st := &step{number: s.Step, seen: m.now}
	for _, r := range s.Runs {
		if err := m.checkRun(r); err != nil {
			return nil, err
		}
		for i := range r.Tokens {
			m.ask(st, r, i)
		}
		m.embed(st, r)
	}
	return st, nil
}

// ask has a query for a row of a run, or none.
func (m *mapper) ask(st *step, r *pb.Run, i int) {
	own, kind := true, m.config.Maps.Prefill
	if r.Tenant == schemas.CanaryTenant { // no load
		st.of = append(st.of, -1)
		return
	}
	if r.Phase == pb.Phase_PHASE_PREFILL {
		own = kind == Rows || kind == Last && i == len(r.Tokens)-1 || kind != Last && i == 0
		if kind == Last && !own {
			st.of = append(st.of, -1)
			return
		}
	}
	if own {
		q := m.newQuery(r.Tenant)
		if r.Phase == pb.Phase_PHASE_DECODE {
			q.sequence, q.token = r.Sequence, r.Tokens[i]
		}
		st.queries = append(st.queries, q)
	}
	at := len(st.queries) - 1
	st.of = append(st.of, at)
	st.queries[at].rows++
}

func (m *mapper) newQuery(tenant string) *query {
	s := &m.store.Settings
	return &query{
		tenant: tenant, search: m.store.Begin(tenant), whole: true,
		embedding: make([]float32, s.Embedding), probs: make([]float32, s.Layers*s.Experts),
	}
}

// checkRun refuses tokens that the model does not have.
func (m *mapper) checkRun(r *pb.Run) error {
	for _, id := range r.GetTokens() {
		if int64(id) >= int64(m.d.Model.Spec.Vocab) {
			return fmt.Errorf("%w: a step with token %d of %d", wire.ErrMalformed, id, m.d.Model.Spec.Vocab)
		}
	}
	return nil
}

// embed adds what the newest rows of a step, those of a run, begin with to their queries'.
func (m *mapper) embed(st *step, r *pb.Run) {
	tokens, first, d := r.Tokens, int(r.FirstPosition), m.d.Model.Spec.Hidden
	before := m.before(r)
	if before != nil {
		tokens, first = append(before, tokens...), first-1
	}
	rows := make([]forward.Row, len(tokens))
	for i, id := range tokens {
		rows[i] = forward.Row{ID: id}
		if most := m.d.Model.Spec.Embedding.Positions; most > 0 {
			rows[i].Position = min(first+i, most-1)
		}
	}
	m.x = reuse.Slice(m.x, len(rows)*d)
	m.embeds.Fill(m.x, rows)
	for i, at := range st.of[len(st.of)-len(r.Tokens):] {
		if at < 0 {
			continue
		}
		row, q := i+len(before), st.queries[at]
		q.addEmbedding(m.x[row*d:(row+1)*d], 1)
		if m.config.Maps.Embedding == Pair && row > 0 {
			q.addEmbedding(m.x[(row-1)*d:row*d], ofBefore)
		}
	}
}

// ofBefore is how much of the embedding before it counts, with Pair.
const ofBefore = 0.25

func (q *query) addEmbedding(x []float32, part float32) {
	part /= float32(q.rows)
	for i, v := range x {
		q.embedding[i] += part * v
	}
}

// mostSequences bounds those whose newest tokens are remembered.
const mostSequences = 4096

// lastToken is the newest of a sequence.
type lastToken struct {
	position uint32
	id       uint32
}

// before returns the token before a run, if it is needed and known, and remembers the run's last one.
func (m *mapper) before(r *pb.Run) (token []uint32) {
	if m.config.Maps.Embedding != Pair || len(r.Tokens) == 0 {
		return nil
	}
	last, known := m.last[r.Sequence]
	if known && last.position+1 == r.FirstPosition {
		token = []uint32{last.id}
	}
	if !known && len(m.last) >= mostSequences {
		clear(m.last) // they are of sequences that have ended, most of them
	}
	m.last[r.Sequence] = lastToken{r.FirstPosition + uint32(len(r.Tokens)) - 1, r.Tokens[len(r.Tokens)-1]}
	return token
}

// take takes what the gate of a place makes of some rows, and returns the queries all of whose
// rows have passed it.
func (st *step) take(at, first, rows int, probs []float32, experts int) (passed []*query) {
	for i, of := range st.of[first : first+rows] {
		if of < 0 {
			continue
		}
		q := st.queries[of]
		if at < q.next {
			continue // a repeat
		}
		if at > q.next { // a gate was missed
			q.next, q.got, q.whole = at, 0, false
		}
		into, share := q.layer(at, experts), 1/float32(q.rows)
		for e, p := range probs[i*experts : (i+1)*experts] {
			if q.got == 0 {
				into[e] = 0
			}
			into[e] += share * p
		}
		if q.got++; q.got == q.rows {
			q.got, q.next, q.at = 0, at+1, i
			passed = append(passed, q)
		}
	}
	return passed
}

func (q *query) layer(at, experts int) []float32 { return q.probs[at*experts : (at+1)*experts] }
