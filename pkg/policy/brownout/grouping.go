package brownout

import "fmt"

// Grouping says which experts of a layer share a united expert: those that follow each other in
// an order, a way at a time. A nil one has the order of their numbers.
type Grouping struct {
	order []int32 // experts by place
	place []int32 // places by expert
}

// NewGrouping is that of an order, which must name each expert once.
func NewGrouping(order []int32) (*Grouping, error) {
	g := &Grouping{order: order, place: make([]int32, len(order))}
	seen, sorted := make([]bool, len(order)), true
	for p, e := range order {
		if e < 0 || int(e) >= len(order) || seen[e] {
			return nil, fmt.Errorf("%w: an order of %d experts has %d at place %d, twice or outside", ErrSettings, len(order), e, p)
		}
		seen[e], g.place[e], sorted = true, int32(p), sorted && p == int(e)
	}
	if sorted {
		return nil, nil //nolint:nilnil // the order of the numbers
	}
	return g, nil
}

// Expert is the one at a place.
func (g *Grouping) Expert(place int) int {
	if g == nil {
		return place
	}
	return int(g.order[place])
}

// Group is an expert's by a way.
func (g *Grouping) Group(expert, way int) int {
	if g == nil {
		return expert / way
	}
	return int(g.place[expert]) / way
}

// fits says whether it is of so many experts.
func (g *Grouping) fits(experts int) bool { return g == nil || len(g.order) == experts }
