package choices

import "github.com/switchyard/switchyard/pkg/serverless/routing"

// Sample is a text as it was routed: the choices of each row, and in it of each
// layer and slot.
type Sample struct {
	Domain  int
	Choices []uint16 // (rows, layers, k)
}

// Figures are what of routing is measured, of each layer and in the mean; all are
// the mean over texts or domains.
type Figures struct {
	// Common, Domain and Text are the variances of popularity, the mean expert's
	// being 1, that all domains share, that a domain has, and that a text has: those
	// of one, two and three of the generator's normal numbers. Each is a covariance
	// of different rows, so that the chance of few rows is none of it.
	Common, Domain, Text float64
	// Neighbour is how much oftener than far rows of a text neighbours have the same
	// first expert, as a part of what is possible.
	Neighbour float64
	// Layer is how much oftener than by popularity alone a row's first expert is
	// known from the one of the layer before, as a part of what is possible (Goodman
	// and Kruskal's lambda). The first layer has none.
	Layer float64
}

// far is how many rows lie between ones that are not taken for neighbours.
const far = 16

// Measure are the figures of each layer.
func Measure(s routing.Shape, samples []Sample) []Figures {
	figures := make([]Figures, s.Layers)
	for l := range figures {
		m := &meter{Shape: s, layer: l, domains: map[int]*[2]counts{}, turn: map[int]int{}, pairs: map[int][]float64{}}
		for _, t := range samples {
			m.add(t)
		}
		figures[l] = m.figures()
	}
	return figures
}

// Mean is the mean of layers' figures; that of Layer is over those that have it.
func Mean(fs []Figures) (m Figures) {
	n := float64(len(fs))
	for _, f := range fs {
		m.Common += f.Common / n
		m.Domain += f.Domain / n
		m.Text += f.Text / n
		m.Neighbour += f.Neighbour / n
		m.Layer += f.Layer / max(1, n-1)
	}
	return m
}

// meter measures one layer.
type meter struct {
	routing.Shape
	layer   int
	domains map[int]*[2]counts // of each domain, its texts in turn in two halves
	turn    map[int]int
	text    mean // of texts' halves
	near    mean // are the first experts of neighbours the same?
	apart   mean // and those of far rows?
	pairs   map[int][]float64
}

type counts []float64

type mean struct{ sum, n float64 }

func (m *mean) add(x float64) { m.sum += x; m.n++ }
func (m *mean) get() float64  { return m.sum / max(1, m.n) }

func (m *meter) row(t Sample, r, layer int) []uint16 {
	at := (r*m.Layers + layer) * m.TopK
	return t.Choices[at : at+m.TopK]
}

// add takes a text in.
func (m *meter) add(t Sample) {
	n := len(t.Choices) / m.Layers / m.TopK
	half := [2]counts{make(counts, m.Experts), make(counts, m.Experts)}
	for r := range n {
		for _, e := range m.row(t, r, m.layer) {
			half[min(1, 2*r/max(1, n))][e]++
		}
		m.compare(&m.near, t, r, r-1)
		m.compare(&m.apart, t, r, r-far)
		m.pair(t, r)
	}
	if n >= 2*far {
		m.text.add(covariance(half[0], half[1]))
	}
	d := m.domains[t.Domain]
	if d == nil {
		d = &[2]counts{make(counts, m.Experts), make(counts, m.Experts)}
		m.domains[t.Domain] = d
	}
	to := d[m.turn[t.Domain]%2]
	m.turn[t.Domain]++
	for e := range to {
		to[e] += half[0][e] + half[1][e]
	}
}

func (m *meter) compare(to *mean, t Sample, r, other int) {
	if other < 0 {
		return
	}
	same := 0.0
	if m.row(t, r, m.layer)[0] == m.row(t, other, m.layer)[0] {
		same = 1
	}
	to.add(same)
}

// pair counts the first experts of this layer and the one before.
func (m *meter) pair(t Sample, r int) {
	if m.layer == 0 {
		return
	}
	p := m.pairs[t.Domain]
	if p == nil {
		p = make([]float64, m.Experts*m.Experts)
		m.pairs[t.Domain] = p
	}
	p[int(m.row(t, r, m.layer-1)[0])*m.Experts+int(m.row(t, r, m.layer)[0])]++
}

func (m *meter) figures() (f Figures) {
	var common, domain mean
	for d, a := range m.domains {
		domain.add(covariance(a[0], a[1]))
		for o, b := range m.domains {
			if o != d {
				common.add(covariance(sum(a), sum(b)))
			}
		}
	}
	f = Figures{Common: common.get(), Domain: domain.get(), Text: m.text.get()}
	if far := m.apart.get(); far < 1 {
		f.Neighbour = (m.near.get() - far) / (1 - far)
	}
	var known mean
	for _, p := range m.pairs {
		known.add(lambda(p, m.Experts))
	}
	f.Layer = known.get()
	return f
}

func sum(a *[2]counts) counts {
	c := make(counts, len(a[0]))
	for e := range c {
		c[e] = a[0][e] + a[1][e]
	}
	return c
}

// covariance is that of two popularities whose mean is 1.
func covariance(a, b counts) float64 {
	na, nb, sum := 0.0, 0.0, 0.0
	for e := range a {
		na += a[e]
		nb += b[e]
	}
	if na == 0 || nb == 0 {
		return 0
	}
	n := float64(len(a))
	for e := range a {
		sum += (a[e]/na*n - 1) * (b[e]/nb*n - 1)
	}
	return sum / n
}

// lambda is by how much knowing a pair's first helps to guess its second.
func lambda(p []float64, n int) float64 {
	guess, second, total := 0.0, make([]float64, n), 0.0
	for a := range n {
		most := 0.0
		for b, c := range p[a*n : (a+1)*n] {
			most = max(most, c)
			second[b] += c
			total += c
		}
		guess += most
	}
	blind := 0.0
	for _, c := range second {
		blind = max(blind, c)
	}
	if blind == total {
		return 0
	}
	return (guess - blind) / (total - blind)
}
