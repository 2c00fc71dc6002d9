package admission

import (
	"math"

	"github.com/switchyard/switchyard/schemas"
)

// Shares divides the rows of steps among those whose requests are under way, by the accounts that also say
// who begins (Queue): a flow's virtual time moves on by its rows divided by its weight, as the virtual token
// counter of Sheng et al. 2024 ("Fairness in Serving Large Language Models") does, and who comes back from
// doing nothing starts at the time of those who did not. In each step all flows may get as far as the one
// gets that has no more rows to give: a tenant of many sequences does not make the steps longer in which
// another one's few go, as far as the weights do not say so. The zero value has no flows.
//
// The classes of a tenant share what it has in the same way, by classWeights.
type Shares struct {
	flows  map[schemas.Flow]*Flow
	active []*Flow
	round  uint64
	clock  float64 // virtual time that all who were active have reached
}

// Flow is what the requests of a tenant's class have in steps.
type Flow struct {
	account

	name     schemas.Flow
	given    float64 // the tenant's weight, as the newest request says
	weight   float64 // its own, beside the tenant's other classes
	round    uint64  // in which it was active last
	wanted   int     // rows that it could have in a step, those in flight included
	inFlight int
	left     int // rows that it may still have
}

// classWeights are what a row of each class weighs beside those of other classes of its tenant.
var classWeights = map[schemas.Class]float64{schemas.ClassHigh: 4, schemas.ClassNormal: 2, schemas.ClassLow: 1}

const (
	// slack is by how many rows a flow may be ahead of its share, so that those whose requests come and go
	// at about one rate do not wait for each other.
	slack = 16
	// maxFlows bounds those that are remembered, though names may be invented.
	maxFlows = 4096
)

// Begin begins to count who wants rows.
func (s *Shares) Begin() {
	s.active = s.active[:0]
	s.round++
}

// Want counts rows that a request of a flow could have in a step: it is ready, or in flight with them. It
// returns the flow; nil is that of the services' own requests, which have what they need.
func (s *Shares) Want(name schemas.Flow, weight float64, rows int, inFlight bool) *Flow {
	if name.IsCanary() {
		return nil
	}
	f := s.flow(name)
	if f.round != s.round {
		if f.round != s.round-1 {
			f.lift(s.clock)
		}
		f.round, f.wanted, f.inFlight = s.round, 0, 0
		s.active = append(s.active, f)
	}
	f.given = orOne(weight)
	f.wanted += rows
	if inFlight {
		f.inFlight += rows
	}
	return f
}

func (s *Shares) flow(name schemas.Flow) *Flow {
	f := s.flows[name]
	if f == nil {
		if s.flows == nil || len(s.flows) >= maxFlows {
			s.flows = map[schemas.Flow]*Flow{}
			for _, f := range s.active {
				s.flows[f.name] = f
			}
		}
		f = &Flow{name: name}
		s.flows[name] = f
	}
	return f
}

// Divide says how many rows each flow may have in the step, at least so many together: fewer rows would
// take nearly as long. It returns false where there is nobody to share with.
func (s *Shares) Divide(least int) (shared bool) {
	s.rebase()
	if len(s.active) < 2 {
		for _, f := range s.active {
			f.weight, s.clock = f.given, f.time
		}
		return false
	}
	s.weigh()
	s.clock = math.Inf(1)
	level, weights := math.Inf(1), 0.0
	for _, f := range s.active {
		s.clock = min(s.clock, f.begun())
		level = min(level, f.begun()+float64(f.wanted)/f.weight)
		weights += f.weight
	}
	level += slack * float64(len(s.active)) / weights
	for range least { // each gives at least one more
		if s.give(level) >= least {
			break
		}
		level = s.next(level)
	}
	s.give(level)
	return true
}

// far is to where virtual time gets before it begins at 0 again: sums of small parts stay exact.
const far = 1 << 20

func (s *Shares) rebase() {
	if s.clock < far {
		return
	}
	for _, f := range s.flows {
		f.time = max(0, f.time-s.clock)
	}
	s.clock = 0
}

// weigh divides each tenant's weight among its classes that are active.
func (s *Shares) weigh() {
	for _, f := range s.active {
		sum := 0.0
		for _, class := range schemas.Classes {
			if o := s.flows[schemas.Flow{Tenant: f.name.Tenant, Class: class}]; o != nil && o.round == s.round {
				sum += classWeights[class]
			}
		}
		f.weight = f.given * classWeights[f.name.Class] / sum
	}
}

// give lets all flows get to a level of virtual time, and says how many rows that is.
func (s *Shares) give(level float64) (rows int) {
	for _, f := range s.active {
		n := f.until(level)
		f.left = max(0, n-f.inFlight)
		rows += n
	}
	return rows
}

// next is the lowest level at which one more row is given; the same if all have what they want.
func (s *Shares) next(level float64) float64 {
	nearest := math.Inf(1)
	for _, f := range s.active {
		if n := f.until(level); n < f.wanted {
			nearest = min(nearest, f.begun()+float64(n+1)/f.weight)
		}
	}
	if math.IsInf(nearest, 1) {
		return level
	}
	return nearest
}

// until is how many rows the flow may have until a level of virtual time.
func (f *Flow) until(level float64) int {
	const exact = 1e-6 // what sums of fractions may be off
	return int(min(float64(f.wanted), max(0, (level-f.begun())*f.weight+exact)))
}

// begun is the virtual time without rows in flight.
func (f *Flow) begun() float64 { return f.time - float64(f.inFlight)/f.weight }

// Time is the flow's virtual time: who has the least of it goes first.
func (f *Flow) Time() float64 {
	if f == nil {
		return math.Inf(-1)
	}
	return f.time
}

// Grant takes up to n of the rows that the flow may have in the step.
func (f *Flow) Grant(n int) int {
	if f == nil {
		return n
	}
	n = min(n, f.left)
	f.left -= n
	return n
}

// Take charges the flow for rows that go.
func (f *Flow) Take(rows int) {
	if f != nil {
		f.charge(f.weight, float64(rows))
	}
}
