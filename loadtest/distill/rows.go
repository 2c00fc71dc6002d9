package distill

import (
	"fmt"
	"math/rand/v2"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/recording"
)

// rows are what a student learns from, or is measured by: the loss of a row is
// ‖g·U(x) − t‖², where t = Σ wᵢEᵢ(x) and g = Σ wᵢ over the members of its group.
type rows struct {
	d, way int
	n      int
	x, t   []float32 // (n, D)
	g      []float32 // (n)
	w      []float32 // (n, way): of each member, 0 where it is not chosen
	count  []int     // (way): rows that chose each member
}

// span are the rows [from, to) of one sequence.
type span struct{ from, to int }

// split are the sequences by what they are for.
type split struct{ learn, validation, test []span }

// splitSequences divides each domain's sequences 6:1:3, in an order of their own.
func splitSequences(r *recording.Recording, seed uint64) (s split) {
	domains := make([][]span, len(r.Domains))
	first := r.Sequences()
	for i := range len(first) - 1 {
		d := r.Row(first[i]).Domain
		domains[d] = append(domains[d], span{first[i], first[i+1]})
	}
	order := rand.New(rand.NewPCG(seed, 3))
	for _, list := range domains {
		order.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		learn, test := len(list)*6/10, len(list)*7/10
		s.learn = append(s.learn, list[:learn]...)
		s.validation = append(s.validation, list[learn:test]...)
		s.test = append(s.test, list[test:]...)
	}
	for _, list := range [][]span{s.learn, s.validation, s.test} {
		order.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return s
}

// source reads rows of a recording, and routes them again: a recording has no weights.
type source struct {
	r      *recording.Recording
	router *forward.Router
	routes forward.Routes
	x      []float32
}

func (t *teacher) newSource(p *pool.Pool) (*source, error) {
	router, err := forward.LoadRouter(t.Model, p)
	if err != nil {
		return nil, fmt.Errorf("loading the gates: %w", err)
	}
	return &source{r: t.Recording, router: router}, nil
}

// gather takes rows of some sequences, at most so many: those that chose a member, with their
// weights; or all, each with the same share of every member.
func (s *source) gather(u unit, spans []span, most int, all bool) (*rows, error) {
	out := &rows{d: s.r.Hidden, way: len(u.experts), count: make([]int, len(u.experts))}
	for _, sp := range spans {
		n := sp.to - sp.from
		s.x = reuse.Slice(s.x, n*out.d)
		s.r.Inputs(u.index, sp.from, s.x)
		if err := s.router.Route(u.layer, s.x, &s.routes); err != nil {
			return nil, err
		}
		for i := range n {
			if out.n == most {
				return out, nil
			}
			k := s.routes.K
			out.take(u, s.x[i*out.d:(i+1)*out.d], s.routes.Expert[i*k:(i+1)*k], s.routes.Weight[i*k:(i+1)*k], all)
		}
	}
	return out, nil
}

// take adds a row, if any member is chosen or all rows are wanted.
func (r *rows) take(u unit, x []float32, experts []int32, weights []float32, all bool) {
	at, sum := len(r.w), float32(0)
	r.w = append(r.w, make([]float32, r.way)...)
	for i, e := range experts {
		if m := u.member(e); m >= 0 {
			r.count[m]++
			r.w[at+m] = weights[i]
			sum += weights[i]
		}
	}
	if all {
		for m := range r.way {
			r.w[at+m] = 1 / float32(r.way)
		}
		sum = 1
	}
	if sum == 0 {
		r.w = r.w[:at]
		return
	}
	r.x, r.g, r.n = append(r.x, x...), append(r.g, sum), r.n+1
}

// chunk is how many rows experts are asked at once.
const chunk = 256

// teach fills in what the members give.
func (r *rows) teach(members []*net, s *scratch) {
	r.t = make([]float32, r.n*r.d)
	for m, e := range members {
		r.each(m, e, s, func(row int, y []float32) {
			w, t := r.w[row*r.way+m], r.t[row*r.d:(row+1)*r.d]
			for i, v := range y {
				t[i] += w * v
			}
		})
	}
}

// each calls f with what a network gives for each row that has a weight for a member.
func (r *rows) each(m int, e *net, s *scratch, f func(row int, y []float32)) {
	var at []int
	x, y := make([]float32, 0, chunk*r.d), make([]float32, chunk*r.d)
	flush := func() {
		e.run(y[:len(x)], x, s)
		for i, row := range at {
			f(row, y[i*r.d:(i+1)*r.d])
		}
		at, x = at[:0], x[:0]
	}
	for row := range r.n {
		if r.w[row*r.way+m] == 0 {
			continue
		}
		at, x = append(at, row), append(x, r.x[row*r.d:(row+1)*r.d]...)
		if len(at) == chunk {
			flush()
		}
	}
	flush()
}

func (r *rows) norm() (sum float64) {
	for _, v := range r.t {
		sum += float64(v) * float64(v)
	}
	return sum / float64(max(1, r.n))
}

// batch is the rows of an order.
func (r *rows) batch(order []int, into *rows) {
	into.d, into.n, into.x, into.t, into.g = r.d, len(order), into.x[:0], into.t[:0], into.g[:0]
	for _, i := range order {
		into.x, into.t = append(into.x, r.x[i*r.d:(i+1)*r.d]...), append(into.t, r.t[i*r.d:(i+1)*r.d]...)
		into.g = append(into.g, r.g[i])
	}
}

// loss is the mean of ‖g·U − t‖², as a share of that of ‖t‖².
func (r *rows) loss(e *net, s *scratch) float64 {
	sum := 0.0
	y := make([]float32, chunk*r.d)
	for from := 0; from < r.n; from += chunk {
		to := min(from+chunk, r.n)
		out := y[:(to-from)*r.d]
		e.run(out, r.x[from*r.d:to*r.d], s)
		for row := from; row < to; row++ {
			g, t := r.g[row], r.t[row*r.d:(row+1)*r.d]
			for i, v := range out[(row-from)*r.d : (row-from+1)*r.d] {
				d := float64(g*v - t[i])
				sum += d * d
			}
		}
	}
	return share(sum/float64(max(1, r.n)), r.norm())
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
