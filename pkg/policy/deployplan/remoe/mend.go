package remoe

import "math"

// Sizing is how functions get their sizes.
type Sizing uint8

// The ways.
const (
	// Mended rounds the solution of P2, and then exchanges sizes in the table of times.
	Mended Sizing = iota
	// Rounded is the paper's: the solution of P2 rounded to the better neighbouring size.
	Rounded
	// Least are the best of all sizes.
	Least
)

// Rounding costs what the curve is off the times that it was fitted to, which a look at the
// neighbours does not find. The exchanges do.
const (
	reach       = 3  // how far up and down the sizes a pair is exchanged
	mostChanges = 64 // exchanges of a choice
	worthwhile  = 1e-9
)

// mended is the cheapest of two choices with exchanges: of what rounding gave, and of the best sizes
// at the least price of time that keeps the budget. It is nil where none keeps it.
func (t tables) mended(rounded []int, budget float64) (best []int) {
	_, priced, _ := multiplier(t, budget)
	least := math.Inf(1)
	for _, choice := range [][]int{rounded, priced} {
		if choice == nil || !t.mend(choice, budget) {
			continue
		}
		if dollars, _ := t.sum(choice); dollars < least {
			best, least = choice, dollars
		}
	}
	return best
}

// mend exchanges sizes, first until the budget is kept, where a second costs the least, and then as
// long as another size of one layer, or other ones of two, make the choice cheaper. It is false where
// the budget is not kept.
func (t tables) mend(choice []int, budget float64) bool {
	for {
		_, seconds := t.sum(choice)
		if seconds <= budget {
			break
		}
		if !t.quicken(choice) {
			return false
		}
	}
	for range mostChanges {
		if !t.exchange(choice, budget) && !t.exchangeTwo(choice, budget) {
			break
		}
	}
	return true
}

// move is another size of a layer, and what it changes.
type move struct {
	layer, size      int
	dollars, seconds float64
}

// moves are all other sizes of a layer that are no more than so many places away.
func (t tables) moves(choice []int, layer, reach int) (all []move) {
	now := choice[layer]
	for v := max(0, now-reach); v <= min(len(t.dollars[layer])-1, now+reach); v++ {
		if v != now && !math.IsInf(t.dollars[layer][v], 1) {
			all = append(all, move{layer, v, t.dollars[layer][v] - t.dollars[layer][now], t.seconds[layer][v] - t.seconds[layer][now]})
		}
	}
	return all
}

// quicken makes the change by which a second costs the least; it is false where no size is quicker.
func (t tables) quicken(choice []int) bool {
	least, best := math.Inf(1), move{layer: -1}
	for l := range choice {
		for _, m := range t.moves(choice, l, len(t.dollars[l])) {
			if m.seconds < 0 && m.dollars/-m.seconds < least {
				least, best = m.dollars/-m.seconds, m
			}
		}
	}
	if best.layer < 0 {
		return false
	}
	choice[best.layer] = best.size
	return true
}

// exchange gives one layer another size, the one that saves the most.
func (t tables) exchange(choice []int, budget float64) bool {
	dollars, seconds := t.sum(choice)
	best := move{layer: -1, dollars: -worthwhile * dollars}
	for l := range choice {
		for _, m := range t.moves(choice, l, len(t.dollars[l])) {
			if m.dollars < best.dollars && seconds+m.seconds <= budget {
				best = m
			}
		}
	}
	if best.layer < 0 {
		return false
	}
	choice[best.layer] = best.size
	return true
}

// exchangeTwo gives one layer a slower and cheaper size and another one a quicker and dearer one, the
// two that save the most together.
func (t tables) exchangeTwo(choice []int, budget float64) bool {
	dollars, seconds := t.sum(choice)
	var cheaper, quicker []move
	for l := range choice {
		for _, m := range t.moves(choice, l, reach) {
			switch {
			case m.dollars < 0:
				cheaper = append(cheaper, m)
			case m.seconds < 0:
				quicker = append(quicker, m)
			}
		}
	}
	least, a, b := -worthwhile*dollars, move{layer: -1}, move{}
	for _, c := range cheaper {
		for _, q := range quicker {
			if c.layer != q.layer && c.dollars+q.dollars < least && seconds+c.seconds+q.seconds <= budget {
				least, a, b = c.dollars+q.dollars, c, q
			}
		}
	}
	if a.layer < 0 {
		return false
	}
	choice[a.layer], choice[b.layer] = a.size, b.size
	return true
}
