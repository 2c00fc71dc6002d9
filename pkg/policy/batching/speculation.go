package batching

import "math"

// Speculation drafts how a sequence goes on from its own text, and says how much of a draft
// is worth checking. One step checks several tokens: it computes the drafted ones as rows beside the
// sequence's next row, and keeps the choices up to the first that is not the drafted token
// (speculative decoding: Leviathan et al. 2023, section 2; drafts by lookup: Yang et al. 2023,
// "Inference with Reference"). A choice is drawn by seed and index from logits that depend on no
// other row, so the kept tokens are those of a run without drafts, at any temperature.
//
// It is pure: a sequence has an Acceptance of what came of its drafts, and an engine a Price of what
// one more row takes. A drafted token is checked if the chance that it is accepted is above the price.

const (
	// least and most are how many of the last tokens are looked up: fewer say little, and more
	// say no more.
	least, most = 2, 8
	// reach is how far back the lookup goes, so that its time has a bound.
	reach = 8192
)

// Draft appends to out what followed the newest place in ids where the last tokens, at most eight
// and at least two of them, stood before: up to n tokens. It says how many tokens matched; 0: none
// did, and nothing is appended.
func Draft(ids []uint32, n int, out []uint32) (draft []uint32, matched int) {
	if n <= 0 {
		return out, 0
	}
	at, matched := newest(ids)
	if matched == 0 {
		return out, 0
	}
	period := len(ids) - at // what follows the end repeats what was drafted
	first := len(out)
	for i := range n {
		if i < period {
			out = append(out, ids[at+i])
		} else {
			out = append(out, out[first+i-period])
		}
	}
	return out, matched
}

// newest is behind which earlier place the most of the last ids stand, and how many of them.
func newest(ids []uint32) (behind, matched int) {
	last := len(ids)
	for end := last - 1; end >= max(least, last-reach); end-- {
		n := 0
		for n < most && n < end && ids[end-1-n] == ids[last-1-n] {
			n++
		}
		if n > matched {
			behind, matched = end, n
		}
		if matched == most {
			break
		}
	}
	if matched < least {
		return 0, 0
	}
	return behind, matched
}

// Acceptance is what came of a sequence's drafts, by how many tokens had matched. The zero value
// expects a quarter of their tokens to be accepted behind two that match, half behind more, and three
// quarters behind eight.
type Acceptance struct {
	kinds [3]kind
}

// kind is of drafts behind matches of about one length.
type kind struct{ accepted, rejected float64 }

const (
	// assumed is how many tokens the zero Acceptance has seen of each kind.
	assumed = 2
	// fade is what is left of an observation after the next draft.
	fade = 0.9
	// forget is what is left of it after a draft that was not worth checking, so that one is
	// checked again some time.
	forget = 0.98
)

// of is the kind of a match, and the part of its tokens that is expected to be accepted.
func (a *Acceptance) of(matched int) (k *kind, expected float64) {
	switch {
	case matched <= least:
		return &a.kinds[0], 0.25
	case matched < most:
		return &a.kinds[1], 0.5
	}
	return &a.kinds[2], 0.75
}

// Observe takes in how many of the checked tokens, the first ones, were accepted.
func (a *Acceptance) Observe(matched, checked, accepted int) {
	k, _ := a.of(matched)
	k.accepted, k.rejected = k.accepted*fade+float64(accepted), k.rejected*fade
	if accepted < checked {
		k.rejected++
	}
}

// Length is how many tokens of a draft behind such a match are worth checking, n at most: those that are
// accepted, with all before them, with a chance above the price of a row.
func (a *Acceptance) Length(matched int, price float64, n int) int {
	k, expected := a.of(matched)
	each := (k.accepted + assumed*expected) / (k.accepted + k.rejected + assumed)
	chance, length := each, 0
	for length < n && chance > price {
		chance *= each
		length++
	}
	if length == 0 {
		k.accepted, k.rejected = k.accepted*forget, k.rejected*forget
	}
	return length
}

// Price is what one more row of a step costs, learnt from what steps took: a line through their
// rows and seconds, of which older ones fade. The zero value knows nothing yet.
type Price struct {
	n, rows, seconds, squares, products float64
}

const (
	// remembered is what is left of a step after the next one.
	remembered = 0.99
	// fixed is how many rows take as long as what a step takes without rows, until steps of
	// different sizes have shown it.
	fixed = 8
	// lowest is the least that a row costs, whatever a few noisy steps say.
	lowest = 0.02
	// spread is the least relative variance of rows that a line is drawn through.
	spread = 1e-3
	// outlier is how many times as long as the mean a step counts at most.
	outlier = 4
)

// Observe takes in a step without prompt rows.
func (p *Price) Observe(rows int, seconds float64) {
	if rows <= 0 || !(seconds > 0) || math.IsInf(seconds, 1) {
		return
	}
	if p.n > 1 {
		seconds = min(seconds, outlier*p.seconds/p.n)
	}
	r := float64(rows)
	for _, sum := range []struct {
		of  *float64
		add float64
	}{{&p.n, 1}, {&p.rows, r}, {&p.seconds, seconds}, {&p.squares, r * r}, {&p.products, r * seconds}} {
		*sum.of = *sum.of*remembered + sum.add
	}
}

// Step is how many seconds a step of so many rows takes; 0: no step was seen.
func (p *Price) Step(rows int) float64 {
	if p.n == 0 {
		return 0
	}
	_, at := p.line(float64(rows))
	return at
}

// Fixed is how many rows take about as long as what a step takes without rows.
func (p *Price) Fixed() int {
	if p.n < 1 {
		return fixed
	}
	mean := p.rows / p.n
	slope, at := p.line(mean)
	if slope <= 0 {
		return fixed
	}
	return int(min(mostFixed, max(0, math.Round(at/slope-mean))))
}

// mostFixed bounds what Fixed makes of steps that all took about as long.
const mostFixed = 64

// line is what a row adds to a step of so many, 0 if all steps were of about one size, and what the step takes;
// there was one.
func (p *Price) line(at float64) (slope, seconds float64) {
	rows, seconds := p.rows/p.n, p.seconds/p.n
	if variance := p.squares/p.n - rows*rows; variance > spread*rows*rows {
		slope = (p.products/p.n - rows*seconds) / variance
	}
	return slope, max(seconds/outlier, seconds+slope*(at-rows))
}

// Row is what one more row costs in a step of so many sequences, in tokens: the part of the step's
// time that it adds, times the sequences, each of which waits that much longer for its token.
func (p *Price) Row(sequences int) float64 {
	s := float64(max(1, sequences))
	prior := s / (fixed + s)
	if p.n < 1 {
		return prior
	}
	slope, at := p.line(s)
	if slope == 0 {
		return prior
	}
	return min(1, max(lowest, prior/4, s*slope/at))
}
