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
