package brownout

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/reuse"
)

// Fate is what becomes of the rows of an expert.
type Fate uint8

// The fates.
const (
	Idle    Fate = iota // it has no rows
	Own                 // it is in S1, and computes them
	Visited             // it would be in S2, but is accessed anyway, and computes them
	Lone                // it is in S2, but a united expert would save no access, so it computes them
	United              // its group's united expert computes them
	Dropped             // nothing is added for them
)

// Itself reports whether the expert computes its rows.
func (f Fate) Itself() bool { return f == Own || f == Visited || f == Lone }

// Rows are the routed rows of a layer that are decided on together.
type Rows struct {
	Count []int32 // of each expert
	// Anyway says which experts are accessed for other rows; nil is none.
	Anyway []bool
	// Loss is the expected error of each expert's rows if they are degraded; S2 is chosen by it.
	// Without it (nil) S2 is algorithm 1's.
	Loss []float64
}

// Decision is one split. It is valid until its splitter makes the next one.
type Decision struct {
	Fate   []Fate // of each expert
	Way    int
	Before int // accesses without brownout
	After  int
	Total  int // routed rows
	Kept   int // of them, those that their own experts compute

	by *Grouping
}

// Group is an expert's group.
func (d *Decision) Group(expert int) int { return d.by.Group(expert, d.Way) }

func (d *Decision) at(place int) Fate { return d.Fate[d.by.Expert(place)] }

// Splitter makes decisions. It keeps its memory from one to the next, so that deciding
// allocates nothing once layers have been as large as they get.
type Splitter struct {
	d      Decision
	order  []int32 // experts with rows, most first
	spare  []int32
	digits [256]int32
	choice choice
}

// Split decides for the rows of a layer. The settings must be checked.
func (p *Splitter) Split(s Settings, r Rows) (*Decision, error) {
	if err := s.Check(len(r.Count)); err != nil {
		return nil, err
	}
	if r.Anyway != nil && len(r.Anyway) != len(r.Count) || r.Loss != nil && len(r.Loss) != len(r.Count) {
		return nil, fmt.Errorf("%w: a layer of %d experts has %d that are accessed anyway, and %d losses", ErrSettings, len(r.Count), len(r.Anyway), len(r.Loss))
	}
	if err := p.begin(s, r); err != nil {
		return nil, err
	}
	kept := p.prefix(s, r)
	if s.Strategy == Full {
		if r.Loss != nil {
			p.keepDearest(r, kept)
		}
	} else {
		p.unite(s, r.Count)
		if r.Loss != nil {
			p.choose(s, r)
		}
	}
	p.finish(r.Count)
	return &p.d, nil
}

// begin orders the experts that have rows.
func (p *Splitter) begin(s Settings, r Rows) error {
	n := len(r.Count)
	fate, order := reuse.Slice(p.d.Fate, n), reuse.Slice(p.order, n)
	total, with := 0, 0
	for e, rows := range r.Count {
		fate[e] = Idle
		if rows < 0 {
			return fmt.Errorf("%w: expert %d has %d rows", ErrSettings, e, rows)
		}
		if order[with] = int32(e); rows > 0 {
			total += int(rows)
			with++
		}
	}
	p.order = order[:with]
	p.d = Decision{Fate: fate, Way: max(1, s.Way), Before: with, Total: total, by: s.Grouping}
	p.sort(r.Count)
	return nil
}

// prefix makes S1: experts that are accessed anyway, and then the fewest whose rows reach the
// threshold together with theirs. It returns how many of the latter there are. The rest is
// marked as dropped.
func (p *Splitter) prefix(s Settings, r Rows) (kept int) {
	sum, want, fate := int64(0), int64(s.Threshold)*int64(p.d.Total), p.d.Fate
	if r.Anyway != nil {
		for _, e := range p.order {
			if r.Anyway[e] {
				fate[e] = Visited
				sum += int64(r.Count[e])
			}
		}
	}
	for _, e := range p.order {
		switch {
		case fate[e] == Visited:
		case sum*One < want:
			fate[e] = Own
			sum += int64(r.Count[e])
			kept++
		default:
			fate[e] = Dropped
		}
	}
	return kept
}

// unite hands S2 to united experts, group by group.
func (p *Splitter) unite(s Settings, count []int32) {
	for g, first := 0, 0; first < len(count); g, first = g+1, first+s.Way {
		end, n := min(first+s.Way, len(count)), 0
		for at := first; at < end; at++ {
			if p.d.at(at) == Dropped {
				n++
			}
		}
		fate := United
		if n == 1 || s.Without != nil && s.Without[g] {
			fate = Lone
		}
		for at := first; at < end; at++ {
			if e := p.d.by.Expert(at); p.d.Fate[e] == Dropped {
				p.d.Fate[e] = fate
			}
		}
	}
}

func (p *Splitter) finish(count []int32) {
	d := &p.d
	d.After, d.Kept = 0, 0
	for first := 0; first < len(count); first += d.Way {
		united := 0
		for at := first; at < min(first+d.Way, len(count)); at++ {
			e := d.by.Expert(at)
			if f := d.Fate[e]; f.Itself() {
				d.After++
				d.Kept += int(count[e])
			} else if f == United {
				united = 1
			}
		}
		d.After += united
	}
}

// sort orders p.order by rows, most first; of equal ones the lower expert is first, as it is
// already. It goes by bytes of the counts, the lowest first.
func (p *Splitter) sort(count []int32) {
	most := int32(0)
	for _, e := range p.order {
		most = max(most, count[e])
	}
	order, spare := p.order, reuse.Slice(p.spare, len(p.order))
	for shift := 0; most>>shift > 0; shift += 8 {
		digits := &p.digits
		clear(digits[:])
		for _, e := range order {
			digits[255-count[e]>>shift&255]++
		}
		at := int32(0)
		for i, n := range digits {
			digits[i], at = at, at+n
		}
		for _, e := range order {
			i := 255 - count[e]>>shift&255
			spare[digits[i]] = e
			digits[i]++
		}
		order, spare = spare, order
	}
	p.order, p.spare = order, spare
}

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

// fits reports whether it is of so many experts.
func (g *Grouping) fits(experts int) bool { return g == nil || len(g.order) == experts }
