package whole

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Decider changes what a layer's gate chose, as brownout.Decision.Redirect does: a slot of a student has the
// number of experts plus the student's. It returns the layer's students, and of each expert which of them
// stands in for it.
type Decider func(layer int, r *forward.Routes) (students []*Student, of func(expert int32) int, err error)

// Lane computes sequences, one after the other. One goroutine uses it.
type Lane struct {
	net    *Network
	ends   []int // of each sequence, in rows
	rows   int
	traces []trace
	x      []float32 // (R, D), behind the last layer
	normed []float32
	mem    memory

	// Gradients are those of the students of each layer, since Backward.
	Gradients [][]Gradient
}

// memory is scratch.
type memory struct {
	head                          head
	a, b, c, turned, logits, want []float32
}

// trace is what a layer was given and made of it.
type trace struct {
	x, mid, qkv, f []float32 // (R, D) before it and its second half; (R, …); (R, D)
	dense          passed
	shared         passed
	scale          []float32 // (R), of the shared expert
	routes         forward.Routes
	chosen         []int32 // (R, k): as the gate chose
	probability    []float32
	calls          []call
	students       []*Student
	of             func(int32) int
}

// call is an expert with its rows.
type call struct {
	passed
	net     *ffn
	student int     // or -1
	slots   []int32 // row·k + slot, of each of its rows
}

// NewLane computes with a network.
func (n *Network) NewLane() *Lane {
	return &Lane{net: n, traces: make([]trace, len(n.layers)), Gradients: make([][]Gradient, len(n.layers))}
}

// Forward takes sequences through all layers; without a decider all rows keep their experts.
func (l *Lane) Forward(sequences [][]uint32, decide Decider) error {
	l.ends, l.rows = l.ends[:0], 0
	for _, ids := range sequences {
		l.rows += len(ids)
		l.ends = append(l.ends, l.rows)
	}
	d := l.net.spec.Hidden
	l.x = reuse.Slice(l.x, l.rows*d)
	row := 0
	for _, ids := range sequences {
		for _, id := range ids {
			copy(l.x[row*d:(row+1)*d], l.net.embed[int(id)*d:])
			row++
		}
	}
	for i := range l.net.layers {
		if err := l.forth(i, decide); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with the rows [from, to) of each sequence.
func (l *Lane) each(f func(from, to int)) {
	from := 0
	for _, to := range l.ends {
		f(from, to)
		from = to
	}
}

// norm is dst (R, D) of x.
func (l *Lane) norm(dst, x, weight []float32, eps float32) []float32 {
	d := l.net.spec.Hidden
	dst = reuse.Slice(dst, len(x))
	for r := 0; r < len(x); r += d {
		cpu.RMSNorm(dst[r:r+d], x[r:r+d], weight, eps)
	}
	return dst
}

func (l *Lane) forth(i int, decide Decider) error {
	n, t, m := &l.net.layers[i], &l.traces[i], &l.mem
	eps, width := n.spec.Norm.Eps, n.qkv.forth.N
	t.x = append(t.x[:0], l.x...)
	m.a = l.norm(m.a, l.x, n.before, eps)
	t.qkv = multiply(t.qkv, m.a, l.rows, n.qkv.forth)
	m.b = reuse.Slice(m.b, l.rows*n.o.forth.K)
	l.each(func(from, to int) {
		for r := from; r < to; r++ {
			row := t.qkv[r*width : (r+1)*width]
			if n.bias != nil {
				cpu.Add(row, n.bias)
			}
			n.turn(row, r-from, false)
		}
		n.mix(&m.head, m.b[from*n.o.forth.K:to*n.o.forth.K], t.qkv[from*width:to*width], to-from)
	})
	m.a = multiply(m.a, m.b, l.rows, n.o.forth)
	cpu.Add(l.x, m.a)
	t.mid = append(t.mid[:0], l.x...)
	t.f = l.norm(t.f, l.x, n.after, eps)
	if n.dense != nil {
		t.dense.n, t.dense.x = l.rows, t.f
		n.dense.run(&t.dense)
		cpu.Add(l.x, t.dense.y)
		return nil
	}
	l.share(n, t)
	if err := l.route(i, n, t, decide); err != nil {
		return err
	}
	l.call(n, t)
	return nil
}

// share adds the shared expert.
func (l *Lane) share(n *layer, t *trace) {
	if n.shared == nil {
		return
	}
	d := l.net.spec.Hidden
	t.shared.n, t.shared.x = l.rows, t.f
	n.shared.run(&t.shared)
	t.scale = reuse.Slice(t.scale, l.rows)
	for r := range l.rows {
		t.scale[r] = 1
		if n.sharedGate != nil {
			t.scale[r] = cpu.Sigmoid(dot(t.f[r*d:(r+1)*d], n.sharedGate))
		}
		addScaled(l.x[r*d:(r+1)*d], t.shared.y[r*d:(r+1)*d], t.scale[r])
	}
}

func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func addScaled(dst, x []float32, scale float32) {
	for i, v := range x {
		dst[i] += scale * v
	}
}

// route fills t.routes, and has them decided.
func (l *Lane) route(i int, n *layer, t *trace, decide Decider) (err error) {
	experts, k := l.net.spec.Experts, l.net.spec.TopK
	t.probability = multiply(t.probability, t.f, l.rows, n.router.forth)
	r := &t.routes
	r.K, r.Expert, r.Weight = k, reuse.Slice(r.Expert, l.rows*k), reuse.Slice(r.Weight, l.rows*k)
	for row := range l.rows {
		all, weights := t.probability[row*experts:(row+1)*experts], r.Weight[row*k:(row+1)*k]
		cpu.Softmax(all)
		cpu.TopK(r.Expert[row*k:(row+1)*k], weights, all)
		if n.spec.Router.Normalise {
			sum := float32(0)
			for _, w := range weights {
				sum += w
			}
			cpu.Scale(weights, 1/sum)
		}
	}
	t.chosen, t.students, t.of = append(t.chosen[:0], r.Expert...), nil, nil
	if decide != nil {
		t.students, t.of, err = decide(i, r)
	}
	return err
}

// call adds what the experts of all slots give.
func (l *Lane) call(n *layer, t *trace) {
	d, k, experts := l.net.spec.Hidden, l.net.spec.TopK, len(n.experts)
	t.calls = reuse.Slice(t.calls, experts+len(t.students))
	for e := range t.calls {
		c := &t.calls[e]
		c.n, c.x, c.slots, c.student = 0, c.x[:0], c.slots[:0], e-experts
		if c.net = nil; e < experts {
			c.net, c.student = n.experts[e], -1
		} else if s := t.students[e-experts]; s != nil {
			c.net = &s.ffn
		}
	}
	for at, e := range t.routes.Expert {
		if e == forward.NoExpert {
			continue
		}
		c := &t.calls[e]
		c.slots = append(c.slots, int32(at))
		c.x = append(c.x, t.f[at/k*d:(at/k+1)*d]...)
		c.n++
	}
	for e := range t.calls {
		c := &t.calls[e]
		if c.n == 0 {
			continue
		}
		c.net.run(&c.passed)
		for i, at := range c.slots {
			row := int(at) / k
			addScaled(l.x[row*d:(row+1)*d], c.y[i*d:(i+1)*d], t.routes.Weight[at])
		}
	}
}
