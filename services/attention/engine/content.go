package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// content is a sequence's ids, and what is to be done with each.
type content struct {
	seq    *pb.Sequence
	ids    []uint32 // prompt and generated tokens
	done   int      // of ids: those that went through the layers
	scored int      // prompt positions whose scores are in the log
}

func (c *content) prompt() int    { return len(c.seq.PromptIds) }
func (c *content) generated() int { return len(c.ids) - c.prompt() }
func (c *content) pending() int   { return c.rows() - c.done }
func (c *content) decoding() bool { return c.pending() == 1 && c.unread() == 0 }
func (c *content) scores() bool   { return c.seq.Score != "" }

// logged is how many of the rows, the first ones, are in the records of tokens.
func (c *content) logged() int {
	if c.generated() > 0 && !c.fills() {
		return len(c.ids) - 1
	}
	return 0
}

// source is how many ids an encoder reads, unread how many it has yet to.
func (c *content) source() int { return int(c.seq.Source) }
func (c *content) unread() int { return max(0, c.source()-c.done) }

// fills says that tokens fill places of the prompt; they pass no layer themselves.
func (c *content) fills() bool { return c.source() == c.prompt() }

// rows is how many ids pass the layers.
func (c *content) rows() int {
	if c.fills() {
		return c.prompt()
	}
	return len(c.ids)
}

// extent is how many positions the ids that it has need in the KV cache.
func (c *content) extent() int { return max(c.source(), c.rows()-c.source()) }

// positions is the most that the sequence will ever need in the KV cache.
func (c *content) positions() int { return edge.Positions(c.seq) }

// chooses reports whether the logits of id at, which may be a drafted one, are for choosing a token.
func (c *content) chooses(at int) bool {
	return c.place(at) >= 0 || at >= len(c.ids)-1 && !c.fills()
}

// place is which of the sequence's tokens fills a position; -1: none, or it has.
func (c *content) place(at int) int {
	i, ok := slices.BinarySearch(c.seq.Fill, uint32(at))
	if !ok || i < c.generated() || i >= int(c.seq.MaxTokens) {
		return -1
	}
	return i
}

func (c *content) wantsScore(pos int) bool {
	return c.scores() && pos < c.prompt() && pos >= c.scored
}

// withLogits is how many of the pending rows want logits; they are the last ones.
func (c *content) withLogits() int {
	switch {
	case c.unread() > 0 && !c.fills():
		return 0
	case !c.scores():
		return max(1, len(c.seq.Fill))
	}
	return max(1, c.prompt()-max(c.done, c.scored))
}

// said is what a repetition repeats of tokens up to at: what a decoder has seen and made.
func (c *content) said(tokens []uint32, at int) []uint32 {
	if c.fills() {
		return c.seq.PromptIds
	}
	return tokens[c.source() : at+1]
}

// index is which token id at chooses.
func (c *content) index(at int) int {
	if i := c.place(at); i >= 0 {
		return i
	}
	return c.generated() + at - (len(c.ids) - 1)
}

// kept is the grammar that an answer keeps to, and where in it the answer stands. It follows
// the answer's tokens alone: an owner that takes the sequence over reads them from the log.
type kept struct {
	cursor *grammar.Cursor // nil: none
	text   grammar.Bytes
	// away says that masks has the cursor, to find what may come behind the newest token: the sequence
	// does not step. newest is that token's text.
	away   bool
	newest []byte
}

// Keep has the answer keep to a grammar. It is called before Resume; text is what tokens add.
func (s *Sequence) Keep(c *grammar.Cursor, text grammar.Bytes) { s.kept = kept{cursor: c, text: text} }

// read takes a token in that the log has.
func (k *kept) read(t *pb.Token) {
	if k.cursor != nil && !t.Stop {
		k.cursor.Read(k.text(t.Id, t.Index == 0))
	}
}

// follow takes a new token in, or leaves that to masks.
func (k *kept) follow(t *pb.Token) {
	if k.cursor == nil || t.Stop {
		return
	}
	k.newest = k.text(t.Id, t.Index == 0)
	k.away = !k.cursor.Try(k.newest)
}

// unfollowed is the end of an answer of which it cannot be said what may come next; nil: that is known.
func (k *kept) unfollowed() *pb.Terminal {
	if k.cursor == nil || k.cursor.Err() == nil {
		return nil
	}
	return ErrorEnd("bad_request", "grammar: "+k.cursor.Err().Error())
}

// restrict bars the tokens that the grammar does not allow next. ok is false if it allows none.
func (k *kept) restrict(p sampling.Params) (out sampling.Params, ok bool) {
	if k.cursor == nil {
		return p, true
	}
	p.Allowed, p.MayEnd = k.cursor.Mask(), k.cursor.Over()
	ok = p.MayEnd
	for _, word := range p.Allowed {
		ok = ok || word != 0
	}
	return p, ok
}

// stuck ends an answer that no token of the vocabulary can go on with.
func stuck() *pb.Terminal {
	return ErrorEnd("bad_request", "no token of the model's vocabulary goes on with the answer as the grammar asks: allow more characters in it")
}

// chooser says which of the sequences step next, and with how many rows.
type chooser struct {
	policy batching.Policy
	pace   batching.Pace
	shares admission.Shares
	// batches chooses in the policy's place, and askWithin is after what time it is to be
	// asked again at the latest, if not 0; nil: the policy chooses.
	batches   deployment.Batches
	askWithin time.Duration

	items []batching.Item
	ready []*Sequence // the same

	granted []grant
	takes   []batching.Take
}

// collect finds those that may step, and the first doubtful one before them, which has its
// trial next if none has.
func (c *chooser) collect(order []*Sequence, onTrial *Sequence) (doubtful *Sequence) {
	c.items, c.ready = c.items[:0], c.ready[:0]
	for _, s := range order {
		switch {
		case !s.mayStep() || s.table.Positions() < s.extent():
		case s.doubtful:
			if onTrial == nil && doubtful == nil && len(c.ready) == 0 {
				doubtful = s
			}
		default:
			c.items, c.ready = append(c.items, s.item()), append(c.ready, s)
		}
	}
	return doubtful
}

// item is the sequence as the policy sees it.
func (s *Sequence) item() batching.Item {
	it := batching.Item{Alone: s.suspect || s.doubtful, Request: s.seq.RequestId, Position: s.done}
	switch n := s.unread(); {
	case n > 0:
		it.Prefill, it.Scored, it.Whole = n, s.withLogits(), true
	case !s.decoding():
		it.Prefill, it.Scored = s.pending(), s.withLogits()
	}
	return it
}

// choose makes a microbatch of those that were collected of the owned; nil: none is to step now.
func (c *chooser) choose(own *owned, price *batching.Price) *microbatch {
	if c.batches != nil {
		c.takes, c.askWithin = c.batches(c.items, c.takes)
	} else {
		c.takes = c.policy.Next(c.items, c.divide(own, price), &c.pace, c.takes)
	}
	if len(c.takes) == 0 {
		return nil
	}
	return newMicrobatch(c.ready, c.takes)
}

// divide leaves of those that were collected what their flows may have of the step, those that had least
// first, and says how many sequences decode, ones in flight included.
func (c *chooser) divide(own *owned, price *batching.Price) (decoding int) {
	c.shares.Begin()
	for _, s := range own.order {
		if s.flight != nil {
			s.account = c.shares.Want(s.flow, s.weight(), s.flying, true)
		}
	}
	for i, s := range c.ready {
		s.account = c.shares.Want(s.flow, s.weight(), max(1, c.items[i].Prefill), false)
	}
	if !c.shares.Divide(min(c.policy.MaxRows, pair+price.Fixed())) {
		return own.decoding()
	}
	c.granted = c.granted[:0]
	for _, prompts := range []bool{false, true} {
		for i, s := range c.ready {
			if c.items[i].Prefill > 0 == prompts {
				c.grant(i, s)
			}
		}
	}
	slices.SortStableFunc(c.granted, func(a, b grant) int { return cmp.Compare(a.s.account.Time(), b.s.account.Time()) })
	c.items, c.ready = c.items[:0], c.ready[:0]
	for _, g := range c.granted {
		c.items, c.ready = append(c.items, g.item), append(c.ready, g.s)
		if g.item.Prefill == 0 {
			decoding++
		}
	}
	for _, s := range own.order {
		if s.flight != nil && s.decoding() {
			decoding++
		}
	}
	return decoding
}

// pair is how many rows a step has at least when two share it: as many as take twice as long as one alone
// are these and as many more as a step takes without rows.
const pair = 2

// grant is a sequence that may step, and what it may have.
type grant struct {
	s    *Sequence
	item batching.Item
}

// grant leaves a sequence what its flow may have yet. What goes alone or whole is not cut.
func (c *chooser) grant(i int, s *Sequence) {
	it := c.items[i]
	n := s.account.Grant(max(1, it.Prefill))
	switch {
	case it.Alone:
	case n == 0:
		return
	case it.Prefill > n && !it.Whole:
		it.Prefill, it.Scored = n, max(0, it.Scored-(it.Prefill-n))
	}
	c.granted = append(c.granted, grant{s, it})
}

// charge charges flows for what a microbatch has.
func (c *chooser) charge(mb *microbatch) {
	for i := range mb.parts {
		p := &mb.parts[i]
		p.s.flying = p.rows
		p.s.account.Take(p.rows)
	}
}

// observe takes in what a microbatch took. price is of rows of answers.
func (c *chooser) observe(mb *microbatch, price *batching.Price) {
	if mb.prompts == 0 {
		c.pace.Alone()
		if !mb.probes() {
			price.Observe(mb.rows, mb.seconds())
		}
		return
	}
	c.pace.Observe(mb.rows, max(0, mb.layers-mb.stalls).Seconds(), mb.wanted, mb.heads.Seconds())
	if n := mb.rows - mb.prompts; n > 0 {
		c.pace.Beside(mb.prompts, mb.seconds(), price.Step(n))
	}
}

// crew are the workers.
type crew struct {
	idle []*worker
	busy map[*microbatch]*worker
}

// give gives a microbatch to an idle worker; there is one.
func (c *crew) give(mb *microbatch) *worker {
	w := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	c.busy[mb] = w
	mb.with(&w.watched)
	return w
}

// with says who computes the sequences of a microbatch; nil: nobody does.
func (mb *microbatch) with(w *renewal.Worker) {
	for i := range mb.parts {
		mb.parts[i].s.delivery.With(w)
	}
}

// Settings are what one replica steps with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Tracer     *telemetry.Tracer

	Backbone *forward.Backbone
	KV       *kvcache.Pool
	// Device is what computes, if it can be lost; or nil.
	Device device.Failer
	// Remote makes the way to the routed experts for a microbatch, whose progress is counted.
	Remote func(microbatch int, progress *forward.Progress) Remote
	Rows   Rows
	// Drafts is how many tokens a draft has at most; 0: none are made.
	Drafts int
	// Directives say what gates are to obey in steps; nil: nothing.
	Directives Directives

	// SharePrefixes has sequences begin with the keys and values that others of their tenant have of
	// the same ids.
	SharePrefixes bool

	// Tasks are what goes on until it is done, and Stopped is closed when the replica stops.
	Tasks   *sync.WaitGroup
	Stopped <-chan struct{}
}

// Rows bound microbatches.
type Rows struct {
	// Max is the most rows of a microbatch, and Microbatches how many are in flight at once.
	Max, Microbatches int
	// Min is the fewest decode rows for which another worker is used; 0 is by the model's size.
	Min int
	// Drag is by what part of itself prompts may lengthen a step that has rows of answers; 0: by any.
	Drag float64
	// LongSteps lets prefill take as long as Max rows take.
	LongSteps bool
}

func (r Rows) policy(m *model.Model) batching.Policy {
	p := batching.Policy{
		Microbatches: r.Microbatches, MinRows: r.minRows(m), MaxRows: r.Max, MaxSeconds: r.maxSeconds(), MinPrefill: minPrefill(m), Beside: r.Drag,
	}
	p.LeastBeside = max(1, p.MinPrefill/leastPart)
	return p
}

// leastPart is what part of the rows that are worth reading the weights for goes beside rows of answers
// in any case, or prompts would hardly get on beside a step of few.
const leastPart = 4

// maxStep is about how long prefill may hold a worker: what streams, and what is
// cancelled, waits for that.
const maxStep = 250 * time.Millisecond

func (r Rows) maxSeconds() float64 {
	if r.LongSteps {
		return 0
	}
	return maxStep.Seconds()
}

// minPrefill is for how many rows reading the weights takes as long as
// computing them: each expert's share of that many rows is a few.
func minPrefill(m *model.Model) int {
	const few = 4
	return few * max(1, m.Spec.Experts/max(1, m.Spec.TopK))
}

// What decides alone how many decode rows are worth another worker.
const (
	fewRows = 8
	// cheapLayer is how many bytes of weights take about as long to read as a
	// layer's messages take to travel.
	cheapLayer = 32 << 20
)

// minRows is the fewest decode rows for which another worker is used. Each worker
// reads the weights anew, so workers that hide a small model's messages cost a
// large one more than its messages do.
func (r Rows) minRows(m *model.Model) int {
	switch {
	case r.Min > 0:
		return r.Min
	case m.Bytes/int64(m.Spec.Layers) <= cheapLayer:
		return fewRows
	}
	return r.Max
}
