package sps

import "math"

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

// pairs are all distances.
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
