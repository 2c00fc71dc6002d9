package sps

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// divide makes children of a leaf with more than β prompts, and of those with more.
func (s *Store) divide(n *node) error {
	if len(n.members) <= max(s.Beta, 2*n.alike) {
		return nil
	}
	if s.Clustering == PAM && len(n.members) > mostPAM {
		return fmt.Errorf("%w: Partitioning Around Medoids would divide %d prompts; it takes %d at most", ErrSettings, len(n.members), mostPAM)
	}
	groups := s.groups(n.members)
	if len(groups) < 2 {
		n.alike = len(n.members)
		return nil
	}
	n.members = nil
	for _, g := range groups {
		child := &node{parent: n, medoid: append([]float32(nil), s.vectors.row(g.medoid)...), members: g.members, size: len(g.members)}
		for _, slot := range g.members {
			s.leaves[slot] = child
		}
		n.children = append(n.children, child)
		if err := s.divide(child); err != nil {
			return err
		}
	}
	return nil
}

// group are prompts and the one in their middle.
type group struct {
	medoid  int32
	members []int32
}

func (s *Store) groups(members []int32) (filled []group) {
	points := &s.vectors
	if s.Clustering == Activation {
		points = &s.activations
	}
	c := newClusters(points, members)
	if s.Clustering == PAM {
		c.pam(min(s.Branch, len(members)))
	} else {
		c.medoids(min(s.Branch, len(members)), &s.draws)
	}
	all := make([]group, len(c.centres))
	for i, at := range c.centres {
		all[i].medoid = members[at]
	}
	for i, of := range c.nearest {
		all[of].members = append(all[of].members, members[i])
	}
	for _, g := range all {
		if len(g.members) > 0 {
			filled = append(filled, g)
		}
	}
	return filled
}

// clusters divides points, which it names by their places.
type clusters struct {
	points  *table
	members []int32
	squares []float64 // half of each one's squared length
	centres []int     // medoids
	nearest []int     // which of the centres is the nearest
	far     []float64 // and how far it is
}

func newClusters(points *table, members []int32) *clusters {
	c := &clusters{points: points, members: members, squares: make([]float64, len(members)), nearest: make([]int, len(members)), far: make([]float64, len(members))}
	for i := range members {
		c.squares[i] = float64(product(c.at(i), c.at(i))) / 2
	}
	return c
}

func (c *clusters) at(i int) []float32 { return c.points.row(c.members[i]) }

// distance is half of the squared distance, and for vectors of length 1 that is 1 less the
// similarity.
func (c *clusters) distance(i, j int) float64 {
	return max(0, c.squares[i]+c.squares[j]-float64(product(c.at(i), c.at(j))))
}

// apart is below what rounding makes of the distance of equal points.
const apart = 1e-6

// rounds bound the updates of medoids, which have mostly ended before.
const rounds = 16

// medoids begins with a roulette wheel, and then moves medoids into the middles of their groups.
func (c *clusters) medoids(k int, draws *uint64) {
	c.begin(k, draws)
	for range rounds {
		if !c.update() {
			return
		}
		c.assign()
	}
}

// begin draws medoids, each with a probability that is in proportion to how far it is from those
// that were drawn before; there are fewer where all points are at one of them.
func (c *clusters) begin(k int, draws *uint64) {
	c.centres = append(c.centres[:0], int(splitmix.Next(draws)%uint64(len(c.members))))
	c.assign()
	for len(c.centres) < k {
		sum := 0.0
		for _, d := range c.far {
			if d > apart {
				sum += d
			}
		}
		if sum == 0 {
			return
		}
		c.centres = append(c.centres, c.spin(splitmix.Unit(splitmix.Next(draws))*sum))
		c.nearer(len(c.centres) - 1)
	}
}

// spin is the point at which the wheel stops.
func (c *clusters) spin(stop float64) (last int) {
	for i, d := range c.far {
		if d <= apart {
			continue
		}
		if last = i; stop < d {
			return i
		}
		stop -= d
	}
	return last // of what rounding left
}

// assign finds each point's nearest centre; of equal ones the first.
func (c *clusters) assign() {
	for i := range c.members {
		c.nearest[i], c.far[i] = 0, c.distance(i, c.centres[0])
	}
	for k := 1; k < len(c.centres); k++ {
		c.nearer(k)
	}
}

// nearer gives a centre the points that are nearer to it than to those before.
func (c *clusters) nearer(k int) {
	for i := range c.members {
		if d := c.distance(i, c.centres[k]); d < c.far[i] {
			c.nearest[i], c.far[i] = k, d
		}
	}
}

// update moves each centre to the point of its group whose distances to the others sum to the
// least, and reports whether any has moved. With the group's sum S of n points, that of a point a
// is n|a|²/2 - a·S and what is the same for all.
func (c *clusters) update() (moved bool) {
	w := c.points.width
	sums, counts := make([]float32, len(c.centres)*w), make([]float64, len(c.centres))
	for i, k := range c.nearest {
		counts[k]++
		for at, v := range c.at(i) {
			sums[k*w+at] += v
		}
	}
	cost := func(i, k int) float64 {
		return counts[k]*c.squares[i] - float64(product(c.at(i), sums[k*w:(k+1)*w]))
	}
	least := make([]float64, len(c.centres))
	for k, i := range c.centres {
		least[k] = cost(i, k) - apart
	}
	for i, k := range c.nearest {
		if now := cost(i, k); now < least[k] {
			least[k], c.centres[k], moved = now, i, true
		}
	}
	return moved
}

// pam is Partitioning Around Medoids (Kaufman and Rousseeuw): medoids begin where each lowers
// the sum of distances the most, and are then exchanged for other points as long as an exchange
// lowers it.
func (c *clusters) pam(k int) {
	d := c.pairs()
	c.build(k, d)
	for c.swap(d) {
	}
	c.assign()
}

func (c *clusters) pairs() [][]float32 {
	d := make([][]float32, len(c.members))
	for i := range d {
		d[i] = make([]float32, len(c.members))
		for j := range i {
			v := float32(c.distance(i, j))
			d[i][j], d[j][i] = v, v
		}
	}
	return d
}

// build chooses the first medoids.
func (c *clusters) build(k int, d [][]float32) {
	c.centres = c.centres[:0]
	for i := range c.far {
		c.far[i] = math.Inf(1)
	}
	for now := math.Inf(1); len(c.centres) < k; {
		best, least := -1, math.Inf(1)
		for h := range c.members {
			sum := 0.0
			for j, v := range d[h] {
				sum += min(c.far[j], float64(v))
			}
			if sum < least {
				best, least = h, sum
			}
		}
		if least > now-apart {
			return // the points are at the medoids already
		}
		now = least
		c.centres = append(c.centres, best)
		for j, v := range d[best] {
			c.far[j] = min(c.far[j], float64(v))
		}
	}
}

func (c *clusters) centred(i int) bool {
	for _, m := range c.centres {
		if m == i {
			return true
		}
	}
	return false
}

// swap makes the exchange that lowers the sum the most, if one does.
func (c *clusters) swap(d [][]float32) bool {
	first, second := c.two(d)
	best, from, to := -apart, -1, -1
	delta := make([]float64, len(c.centres))
	for h := range c.members {
		if c.centred(h) {
			continue
		}
		clear(delta)
		shared := 0.0 // what h brings whichever medoid goes
		for j, v := range d[h] {
			near, k := first[j], c.nearest[j]
			gain := min(0, float64(v)-near)
			shared += gain
			delta[k] += min(float64(v), second[j]) - near - gain
		}
		for k, v := range delta {
			if v+shared < best {
				best, from, to = v+shared, k, h
			}
		}
	}
	if from < 0 {
		return false
	}
	c.centres[from] = to
	return true
}

// two are the distances to each point's nearest medoid, which it notes, and to the next one.
func (c *clusters) two(d [][]float32) (first, second []float64) {
	first, second = make([]float64, len(c.members)), make([]float64, len(c.members))
	for j := range c.members {
		first[j], second[j] = math.Inf(1), math.Inf(1)
		for k, m := range c.centres {
			switch v := float64(d[m][j]); {
			case v < first[j]:
				first[j], second[j], c.nearest[j] = v, first[j], k
			case v < second[j]:
				second[j] = v
			}
		}
	}
	return first, second
}
