package united

import (
	"fmt"
	"math"
	"slices"
)

// Group is what is known of one group of experts. Errors are on held-out rows, as shares of what
// dropping the group's part of a row costs (the squared norm of Σ gᵢEᵢ): 0 is none, 1 is as bad
// as dropping.
type Group struct {
	Layer    int     `json:"layer"`
	Group    int     `json:"group"`
	Of       []int32 `json:"of,omitempty"` // its experts; none: by their numbers, expert / way
	Rows     int     `json:"rows"`         // that it learnt from; 0: it has no united expert
	HeldOut  int     `json:"held_out"`
	Start    string  `json:"start,omitempty"` // what the student was at first
	First    float64 `json:"error_start"`     // its error then, on the validation rows
	Error    float64 `json:"error"`
	Averaged float64 `json:"error_averaged"` // of the members' mean weights
	Busiest  float64 `json:"error_busiest"`  // of the member with most rows
	Members  float64 `json:"error_members"`  // eq. 4: every member on every row, as a share of their squared norm
	Experts  []Cost  `json:"experts,omitempty"`
}

// Cost is what degrading an expert's rows costs, in the mean of those that chose it: the squared
// distance of its output from the united expert's, and its own squared norm, which is what
// dropping costs. Times the square of a row's weight it is that row's.
type Cost struct {
	Expert   int     `json:"expert"`
	Rows     int     `json:"rows"`
	Distance float64 `json:"distance"`
	Norm     float64 `json:"norm"`
}

func (g *Group) has(expert, way int) bool {
	if g.Of == nil {
		return expert/way == g.Group
	}
	return slices.Contains(g.Of, int32(expert))
}

func (g *Group) check(h *Header) error {
	if g.Layer < 0 || g.Group < 0 || g.Group >= h.Groups() || g.Rows < 0 {
		return fmt.Errorf("its table names group %d of layer %d, with %d rows; there are %d groups a layer", g.Group, g.Layer, g.Rows, h.Groups())
	}
	for _, v := range []float64{g.First, g.Error, g.Averaged, g.Busiest, g.Members} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("its table has an error of %v for group %d of layer %d", v, g.Group, g.Layer)
		}
	}
	for _, c := range g.Experts {
		if c.Expert < 0 || c.Expert >= h.Experts || !g.has(c.Expert, h.Way) || !(c.Distance >= 0 && c.Norm >= 0) || math.IsInf(c.Distance+c.Norm, 0) {
			return fmt.Errorf("its table says of expert %d of group %d of layer %d: %+v", c.Expert, g.Group, g.Layer, c)
		}
	}
	return nil
}
