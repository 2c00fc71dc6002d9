package feedback

import (
	"cmp"
	"math"
	"slices"
)

// moments are a weighted mean and its scatter.
type moments struct{ w, squares, mean, m2 float64 }

func (m *moments) add(x, w float64) {
	m.w += w
	m.squares += w * w
	d := x - m.mean
	m.mean += d * w / m.w
	m.m2 += w * d * (x - m.mean)
}

// n is as how many samples of equal weight they count.
func (m *moments) n() float64 {
	if m.squares == 0 {
		return 0
	}
	return m.w * m.w / m.squares
}

// leastScatter is the standard deviation that few samples are believed to have at least.
const leastScatter = 0.05

// error is the squared standard error of the mean.
func (m *moments) error() float64 {
	n := m.n()
	if n <= 1 {
		return math.Inf(1)
	}
	return max(m.m2/m.w, leastScatter*leastScatter) / (n - 1)
}

// curve is what a layer takes, as logarithms of seconds, by classes of rows. New samples count more.
type curve struct{ classes map[int]*class }

type class struct {
	octaves float64 // the mean binary logarithm of the rows
	moments
}

func newCurve() *curve { return &curve{classes: map[int]*class{}} }

const (
	// remember is what a sample still weighs after another one in its class.
	remember = 0.97
	// mostWeight bounds what steps of one sample weigh: they ran at the same time.
	mostWeight = 16
	// reach is by how many octaves of rows a curve is believed beyond its samples.
	reach = 2
)

// put takes in that steps of so many rows took so long in the mean.
func (c *curve) put(at int, octaves, log, weight float64) {
	k := c.classes[at]
	if k == nil {
		k = &class{}
		c.classes[at] = k
	}
	k.w, k.squares, k.m2 = k.w*remember, k.squares*remember*remember, k.m2*remember
	k.add(log, weight)
	k.octaves += (octaves - k.octaves) * weight / k.w
}

func (c *curve) clone() *curve {
	to := newCurve()
	for at, k := range c.classes {
		copied := *k
		to.classes[at] = &copied
	}
	return to
}

func (c *curve) samples() (n float64) {
	for _, k := range c.classes {
		n += k.n()
	}
	return n
}

// at is the logarithm of the seconds that steps of so many rows took, and its squared error;
// false if nothing near was measured. Between two classes, and a little beyond them, it is
// on the line through them.
func (c *curve) at(octaves float64) (log, squared float64, known bool) {
	all := make([]*class, 0, len(c.classes))
	for _, k := range c.classes {
		if k.n() > 1 {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	slices.SortFunc(all, func(a, b *class) int { return cmp.Compare(a.octaves, b.octaves) })
	i, _ := slices.BinarySearchFunc(all, octaves, func(k *class, x float64) int { return cmp.Compare(k.octaves, x) })
	switch {
	case i == 0:
		return beyond(all[0], next(all, 1), octaves)
	case i == len(all):
		return beyond(all[i-1], next(all, i-2), octaves)
	}
	a, b := all[i-1], all[i]
	part := (octaves - a.octaves) / (b.octaves - a.octaves)
	return a.mean + part*(b.mean-a.mean), max(a.error(), b.error()), true
}

func next(all []*class, i int) *class {
	if i < 0 || i >= len(all) {
		return nil
	}
	return all[i]
}

// beyond continues a curve at its end: by the slope there, and by half of what is
// proportional to rows where there is none.
func beyond(end, other *class, octaves float64) (log, squared float64, known bool) {
	if math.Abs(octaves-end.octaves) > reach {
		return 0, 0, false
	}
	slope := math.Ln2 / 2
	if other != nil && other.octaves != end.octaves {
		slope = min(max(0, (other.mean-end.mean)/(other.octaves-end.octaves)), math.Ln2)
	}
	return end.mean + slope*(octaves-end.octaves), end.error(), true
}
