// Package batching decides which rows of which sequences travel together in
// the next microbatch: continuous batching with chunked prefill (Orca, Yu et
// al. 2022, section 3; Sarathi-Serve, Agrawal et al. 2024, section 4). It is
// pure: the engine hands it what is ready and does what it says.
package batching

// Policy bounds microbatches.
type Policy struct {
	// Microbatches is how many microbatches may be in flight at once, so that one's
	// messages hide behind another's compute.
	Microbatches int
	// MinRows is the fewest decode rows for which another worker is worth its messages.
	MinRows int
	// MaxRows bounds the rows of a microbatch, decode and prefill together.
	MaxRows int
	// MaxSeconds is about how long a microbatch with prefill may take; 0 is no
	// bound. Whatever waits for a worker waits for that.
	MaxSeconds float64
	// MinPrefill is how many rows are taken of a prompt however long they take:
	// fewer would take nearly as long, because the weights are read for them, too.
	MinPrefill int
	// Beside is by what part of itself rows of prompts may lengthen a step that has rows of answers;
	// 0 is no bound. LeastBeside is how many go with it however long they take.
	Beside      float64
	LeastBeside int
}

// Item is a sequence that is in no microbatch.
type Item struct {
	// Prefill is the number of prompt rows that are not in the KV cache yet; 0 when decoding.
	Prefill int
	// Scored is how many of them, the last ones, have logits.
	Scored int
	// Whole says that an encoder reads the rows: they go at once, however many they
	// are, and only with others of their kind.
	Whole bool
	// Alone says that it shares a microbatch with nobody.
	Alone bool
	// Request is whose it is, and Position that of its first row that is not computed yet,
	// for scripts.
	Request  string
	Position int
}

// Take is one sequence's share of a microbatch: Rows rows of item Index.
type Take struct {
	Index, Rows int
}

// Next chooses from ready, given how many sequences decode in all, in flight ones
// included. ready is in the order in which they had their turn. Decode rows come
// first, so that a long prompt never stops what is streaming; prefill fills what is
// left of rows and, as the pace says, of time. Decode rows wait for those in flight
// rather than go with fewer than their share: sequences that once went apart would
// stay apart, and read the weights twice a step. Where rows of prompts may lengthen steps of answers by
// a part only, they go with these, and wait for them. What encoders read goes when it
// has waited longest, or when nothing else can.
func (p Policy) Next(ready []Item, decoding int, pace *Pace, out []Take) []Take {
	out = out[:0]
	for i, it := range ready {
		if it.Alone {
			if it.Whole {
				return append(out, Take{i, it.Prefill})
			}
			return append(out, Take{i, max(1, p.rows(it, p.MaxRows, pace.budget(p.MaxSeconds, 0)))})
		}
	}
	if len(ready) > 0 && ready[0].Whole {
		return p.whole(ready, pace.budget(p.MaxSeconds, 0), out)
	}
	if out = p.cut(ready, decoding, pace, out); len(out) > 0 {
		return out
	}
	return p.whole(ready, pace.budget(p.MaxSeconds, 0), out)
}

// cut takes decode rows and pieces of prompts.
func (p Policy) cut(ready []Item, decoding int, pace *Pace, out []Take) []Take {
	room := p.MaxRows
	share := min(p.share(decoding), room)
	if n := decodeRows(ready); n < share && n < decoding {
		share = 0
	}
	for i, it := range ready {
		if it.Prefill == 0 && len(out) < share {
			out = append(out, Take{i, 1})
			room--
		}
	}
	if p.Beside > 0 && decoding > 0 {
		if len(out) == 0 {
			return out
		}
		room = min(room, pace.beside.rows(pace.alone(len(out)), p.Beside, p.LeastBeside))
	}
	return p.prefill(ready, room, pace.budget(p.MaxSeconds, len(out)), out)
}

// whole takes what encoders read, in its order, while there is room and time
// for it; the first goes in any case.
func (p Policy) whole(ready []Item, b budget, out []Take) []Take {
	room := p.MaxRows
	for i, it := range ready {
		if !it.Whole || len(out) > 0 && (it.Prefill > room || b.rows(it) < it.Prefill) {
			continue
		}
		out = append(out, Take{i, it.Prefill})
		room -= it.Prefill
		b.take(it, it.Prefill)
	}
	return out
}

func (p Policy) prefill(ready []Item, room int, b budget, out []Take) []Take {
	first := true
	for i, it := range ready {
		if it.Prefill == 0 || it.Whole || room == 0 {
			continue
		}
		n := min(b.rows(it), room)
		if first { // it advances, whatever the time
			n = p.rows(it, room, b)
		}
		if n > 0 {
			out = append(out, Take{i, n})
			room -= n
			b.take(it, n)
			first = false
		}
	}
	return out
}

// rows is how many of an item's prefill rows go as the first of a microbatch.
func (p Policy) rows(it Item, room int, b budget) int {
	return min(it.Prefill, room, max(1, p.MinPrefill, b.rows(it)))
}

func decodeRows(ready []Item) (n int) {
	for _, it := range ready {
		if it.Prefill == 0 {
			n++
		}
	}
	return n
}

// share is how many decode rows one microbatch takes, so that the workers are
// evenly filled.
func (p Policy) share(decoding int) int {
	workers := max(1, min(p.Microbatches, decoding/max(1, p.MinRows)))
	return (decoding + workers - 1) / workers
}

// beside is what steps take that have rows of answers and of prompts, so that those of prompts can be
// so few that who reads the answers hardly waits for them.
type beside struct {
	each   cost // a prompt's row, beside answers
	newest int  // prompts' rows of the newest such step
	run    int  // of such steps, since one without rows of prompts
}

const (
	// mostRun is after how many steps with both one has no rows of prompts, so that it stays known
	// what those take.
	mostRun = 16
	// worst is how many times as long as without prompts' rows a step counts at most.
	worst = 16
)

// rows is how many of prompts may go beside those of answers, which take so many seconds alone (0:
// nobody knows): as many as lengthen the step by that part of it, at most twice as many as the time
// before, and at least so many.
func (b *beside) rows(alone, part float64, least int) int {
	if b.run >= mostRun {
		return 0
	}
	n := 2 * b.newest
	if each := b.each.each(0); each > 0 {
		n = min(n, int(part*alone/each))
	}
	return max(least, n)
}

// Alone takes in that there was a step without rows of prompts.
func (p *Pace) Alone() { p.beside.run = 0 }

// Beside takes in what a step took that had rows of prompts beside those of answers, which take so
// many seconds alone (0: nobody knows).
func (p *Pace) Beside(prompts int, seconds, alone float64) {
	p.beside.newest = prompts
	p.beside.run++
	if alone > 0 {
		p.beside.each.observe(prompts, min(max(0, seconds-alone), worst*alone))
	}
}

// Pace is what microbatches have taken lately: how long a row takes in the
// layers, and how long its logits take, which for a large vocabulary is longer.
// The zero value knows nothing yet.
type Pace struct {
	layers, logits cost
	beside         beside
	// Seconds is what a step of so many rows of answers alone takes, 0 if it is not known; nil: it
	// never is.
	Seconds func(rows int) float64
}

// alone is what a step of so many rows of answers alone takes; 0: nobody knows.
func (p *Pace) alone(rows int) float64 {
	if p.Seconds == nil {
		return 0
	}
	return p.Seconds(rows)
}

// Observe takes in what a microbatch with prefill took: its rows in the layers,
// and those of them whose logits were made.
func (p *Pace) Observe(rows int, layerSeconds float64, withLogits int, logitSeconds float64) {
	p.layers.observe(rows, layerSeconds)
	p.logits.observe(withLogits, logitSeconds)
}

// What a row takes as long as nothing was seen: rather too much, so that the
// first microbatch finds out without taking long.
const (
	unseenRow    = 0.004
	unseenLogits = 0.040
)

// budget is the time that is left of a microbatch.
type budget struct {
	seconds     float64
	row, logits float64 // what another row takes, and its logits
	unbounded   bool
}

// budget is what maxSeconds leave beside decode rows.
func (p *Pace) budget(maxSeconds float64, decode int) budget {
	b := budget{seconds: maxSeconds, row: p.layers.each(unseenRow), logits: p.logits.each(unseenLogits), unbounded: maxSeconds == 0}
	b.seconds -= float64(decode) * (b.row + b.logits)
	return b
}

// rows is how many of an item's rows there is time for.
func (b *budget) rows(it Item) int {
	plain := it.Prefill - it.Scored
	switch {
	case b.unbounded || b.cost(it, it.Prefill) <= b.seconds:
		return it.Prefill
	case b.seconds <= 0:
		return 0
	case float64(plain)*b.row >= b.seconds:
		return int(b.seconds / b.row)
	}
	return plain + int((b.seconds-float64(plain)*b.row)/(b.row+b.logits))
}

func (b *budget) cost(it Item, n int) float64 {
	return float64(n)*b.row + float64(max(0, n-(it.Prefill-it.Scored)))*b.logits
}

func (b *budget) take(it Item, n int) { b.seconds -= b.cost(it, n) }

// cost is what one takes of those that were seen lately. What does not grow
// with their number counts too, so it is too much for few, and comes down while
// microbatches grow towards their bound.
type cost struct {
	n, seconds float64 // sums in which each observation weighs less than the one after it
}

// keep is the share of its weight that an observation keeps with each later one.
const keep = 0.5

func (c *cost) observe(n int, seconds float64) {
	if n > 0 {
		c.n, c.seconds = keep*c.n+float64(n), keep*c.seconds+seconds
	}
}

func (c *cost) each(unseen float64) float64 {
	if c.n == 0 {
		return unseen
	}
	return c.seconds / c.n
}
