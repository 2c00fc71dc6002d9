// Package batching decides which rows of which sequences travel together in
// the next microbatch: continuous batching with chunked prefill (Orca, Yu et
// al. 2022, section 3; Sarathi-Serve, Agrawal et al. 2024, section 4). It is
// pure: the engine hands it what is ready and does what it says.
package batching

// Policy bounds microbatches.
type Policy struct {
	// Lanes is how many microbatches may be in flight at once, so that one's
	// messages hide behind another's compute.
	Lanes int
	// MinRows is the fewest decode rows for which another lane is worth its messages.
	MinRows int
	// MaxRows bounds the rows of a microbatch, decode and prefill together.
	MaxRows int
}

// Item is a sequence that is in no microbatch.
type Item struct {
	// Prefill is the number of prompt rows that are not in the KV cache yet; 0 when decoding.
	Prefill int
}

// Take is one sequence's share of a microbatch: Rows rows of item Index.
type Take struct {
	Index, Rows int
}

// Next chooses from ready, in their order, given how many sequences decode in
// all, in flight ones included. Decode rows come first, so that a long prompt
// never stops what is streaming; prefill fills what is left. Decode rows wait for
// those in flight rather than go with fewer than their share: sequences that
// once went apart would stay apart, and read the weights twice a step.
func (p Policy) Next(ready []Item, decoding int, out []Take) []Take {
	out = out[:0]
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
	for i, it := range ready {
		if it.Prefill > 0 && room > 0 {
			n := min(it.Prefill, room)
			out = append(out, Take{i, n})
			room -= n
		}
	}
	return out
}

func decodeRows(ready []Item) (n int) {
	for _, it := range ready {
		if it.Prefill == 0 {
			n++
		}
	}
	return n
}

// share is how many decode rows one microbatch takes, so that the lanes are
// evenly filled.
func (p Policy) share(decoding int) int {
	lanes := max(1, min(p.Lanes, decoding/max(1, p.MinRows)))
	return (decoding + lanes - 1) / lanes
}
