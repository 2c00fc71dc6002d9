package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// speculation predicts with what a gate's input tells of a later layer: by that layer's gate,
// reused (Mixtral-Offloading), or by a map that is trained (ProMoE). Nothing is known of the
// first layers.
type speculation struct {
	w        *Workload
	step     int
	distance int
	learned  [][]float32 // of each layer that is predicted from (experts, width+1); nil is the gates
}

func (s *speculation) Begin(step int) { s.step = step }

func (s *speculation) Look(layer int, give func(Look)) {
	target := layer + s.distance
	if layer < 0 || target >= s.w.Layers {
		return
	}
	u, row := newUnion(s.w.Experts), make([]float32, s.w.Experts)
	for _, r := range s.w.Steps[s.step].Rows {
		s.guess(layer, r.State(r.At, layer), row)
		u.most(row, s.w.TopK)
	}
	give(u.look(target))
}

// guess fills row with a later layer's probabilities.
func (s *speculation) guess(layer int, state, row []float32) {
	if s.learned != nil {
		guessBy(s.learned[layer], state, row)
		return
	}
	s.w.Gates.Logits(layer+s.distance, state, row)
	routing.Softmax(row)
}

// guessBy fills row with the probabilities that a map which is trained makes of a state.
func guessBy(learned, state, row []float32) {
	width := len(state)
	for e := range row {
		of := learned[e*(width+1) : (e+1)*(width+1)]
		row[e] = of[width]
		for i, v := range state {
			row[e] += of[i] * v
		}
	}
	routing.Softmax(row)
}

// mostTrained bounds the rows that a map is trained on.
const mostTrained = 1000

// ridge keeps what is trained on few rows from following their chance.
const ridge = 1e-2

// train finds for each layer the linear map from its state to the logits of a later layer that
// has the least squared error on texts (ridge regression). ProMoE trains a network; what rows'
// states and logits have in common is linear but for the softmax.
func train(g *routing.Gates, texts []*routing.Rows, distance int) [][]float32 {
	var rows []Row
	for i, t := range texts {
		for r := range t.N {
			rows = append(rows, Row{t, i, r})
		}
	}
	if every := (len(rows) + mostTrained - 1) / mostTrained; every > 1 {
		few := rows[:0]
		for i := 0; i < len(rows); i += every {
			few = append(few, rows[i])
		}
		rows = few
	}
	all := make([][]float32, g.Layers)
	for l := range max(0, g.Layers-distance) {
		all[l] = regress(g, rows, l, distance)
	}
	return all
}

// regress solves the normal equations of one layer.
func regress(g *routing.Gates, rows []Row, layer, distance int) []float32 {
	n := g.Width + 1
	a, b, x := make([]float64, n*n), make([]float64, n*g.Experts), make([]float64, n)
	for _, r := range rows {
		for i, v := range r.State(r.At, layer) {
			x[i] = float64(v)
		}
		x[n-1] = 1
		for i, v := range x {
			for j := range i + 1 {
				a[i*n+j] += v * x[j]
			}
		}
		for e, p := range r.Of(r.At, layer+distance) {
			y := math.Log(max(1e-9, float64(p)))
			for i, v := range x {
				b[e*n+i] += v * y
			}
		}
	}
	for i := range n {
		a[i*n+i] += ridge * float64(max(1, len(rows)))
	}
	cholesky(a, n)
	w := make([]float32, n*g.Experts)
	for e := range g.Experts {
		y := b[e*n : (e+1)*n]
		solve(a, n, y)
		for i, v := range y {
			w[e*n+i] = float32(v)
		}
	}
	return w
}

// cholesky makes of a symmetric matrix, whose lower half is there, its lower factor.
func cholesky(a []float64, n int) {
	for j := range n {
		for k := range j {
			f := a[j*n+k]
			for i := j; i < n; i++ {
				a[i*n+j] -= f * a[i*n+k]
			}
		}
		d := math.Sqrt(a[j*n+j])
		for i := j; i < n; i++ {
			a[i*n+j] /= d
		}
	}
}

// solve makes of y the solution, of a's lower factor.
func solve(a []float64, n int, y []float64) {
	for i := range n {
		for k := range i {
			y[i] -= a[i*n+k] * y[k]
		}
		y[i] /= a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			y[i] -= a[k*n+i] * y[k]
		}
		y[i] /= a[i*n+i]
	}
}
