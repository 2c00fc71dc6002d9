package requests

import (
	"math"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Tape has the experts of rows. It holds texts of each domain, as the generator writes them;
// a request reads on from a place of one of them, and the text's begin follows its end. So a
// row's experts are the same whenever it is computed, rows of a request resemble each other
// as rows of a text do, and it takes far less memory than choosing experts for every row of an
// hour. For that, all requests of a domain share a few texts, and one with more rows than a
// text has the same experts again.
type Tape struct {
	routing.Shape
	texts  [][]text // of each domain
	domain func(at time.Duration, id uint64) int
	seed   uint64
}

// text is the choices of rows: by row, then layer, then slot.
type text []uint16

// textsOfDomain are how many texts of a domain a tape has, and textRows the rows of each.
const (
	textsOfDomain = 8
	textRows      = 2048
)

// NewTape writes a tape with a generator; the replay says how many domains there are, and
// when each has most requests.
func NewTape(g *choices.Generator, r sim.Replay) *Tape {
	t := &Tape{Shape: g.Shape, domain: r.Domain, seed: splitmix.Mix(r.Seed ^ 0x7a7e)}
	for d := range r.Domains {
		var all []text
		for i := range textsOfDomain {
			all = append(all, t.write(g, routing.Text{ID: uint64(d*textsOfDomain + i), Domain: d, Rows: textRows}))
		}
		t.texts = append(t.texts, all)
	}
	return t
}

func (t *Tape) write(g *choices.Generator, of routing.Text) text {
	w := make(text, of.Rows*t.row())
	g.Choices(of, func(layer, row int, experts []uint16) {
		copy(w[row*t.row()+layer*t.TopK:], experts)
	})
	return w
}

func (t *Tape) row() int { return t.Layers * t.TopK }

// place is where a request reads.
type place struct {
	text  text
	first int // row
	width int
}

// of is where the request of this number in the trace reads.
func (t *Tape) of(id int, q trace.Request) place {
	texts := t.texts[t.domain(q.At, uint64(id))]
	bits := splitmix.Mix(t.seed ^ splitmix.Mix(uint64(id)+1))
	of := texts[bits%uint64(len(texts))]
	return place{text: of, first: int(bits >> 32 % uint64(len(of)/t.row())), width: t.row()}
}

// add counts rows of a request, from one on, at each of their experts in each layer.
func (t *Tape) add(loads []uint32, p place, from, rows int) {
	all := len(p.text) / p.width
	at := (p.first + from) % all
	for range rows {
		choices := p.text[at*p.width : (at+1)*p.width]
		for l := range t.Layers {
			of := loads[l*t.Experts : (l+1)*t.Experts]
			for _, e := range choices[l*t.TopK : (l+1)*t.TopK] {
				of[e]++
			}
		}
		if at++; at == all {
			at = 0
		}
	}
}

// sampled are the rows of a request that known counts.
const sampled = 32

// Known are the loads of requests by layer and expert, told from some rows of each: what a
// policy has seen that served them before.
func (t *Tape) Known(rs []trace.Request) []float64 {
	sum, some := make([]float64, t.Layers*t.Experts), make([]uint32, t.Layers*t.Experts)
	for i, q := range rs {
		rows := min(q.Tokens(), sampled)
		clear(some)
		t.add(some, t.of(math.MaxInt32+i, q), 0, rows)
		for x, n := range some {
			if n > 0 {
				sum[x] += float64(n) * float64(q.Tokens()) / float64(rows)
			}
		}
	}
	return sum
}

// Reader is where a request reads on a tape.
type Reader struct {
	tape *Tape
	at   place
}

// Reader is that of the request of this number in a trace.
func (t *Tape) Reader(id int, q trace.Request) Reader { return Reader{t, t.of(id, q)} }

// Add counts rows of the request, from one on, at each of their experts in each layer.
func (r Reader) Add(loads []uint32, from, rows int) { r.tape.add(loads, r.at, from, rows) }
