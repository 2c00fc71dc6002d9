package whole

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// backward takes grad (R, D), the gradient of what left the last layer, back to the first layer, and fills
// Gradients.
func (l *Lane) backward(grad []float32) {
	for i := len(l.net.layers) - 1; i >= 0; i-- {
		n, t, m := &l.net.layers[i], &l.traces[i], &l.mem
		d, eps := l.net.spec.Hidden, n.spec.Norm.Eps
		l.Gradients[i] = reuse.Slice(l.Gradients[i], len(t.students))
		m.a = reuse.Slice(m.a, l.rows*d) // of what the second half was given
		clear(m.a)
		l.unfeed(i, n, t, grad)
		for r := 0; r < len(grad); r += d {
			unnorm(grad[r:r+d], m.a[r:r+d], t.mid[r:r+d], n.after, eps)
		}
		if i > 0 {
			l.unmix(n, t, grad)
		}
	}
}

// unfeed adds to l.mem.a what grad makes of a layer's second half.
func (l *Lane) unfeed(i int, n *layer, t *trace, grad []float32) {
	m := &l.mem
	if n.dense != nil {
		t.dense.grad = append(t.dense.grad[:0], grad...)
		n.dense.backward(&t.dense, nil, &m.turned)
		cpu.Add(m.a, t.dense.back)
		return
	}
	l.unshare(n, t, grad)
	m.c = reuse.Slice(m.c, len(t.chosen)) // of the slots' weights
	clear(m.c)
	l.uncall(i, t, grad)
	l.unroute(n, t)
}

func (l *Lane) unshare(n *layer, t *trace, grad []float32) {
	if n.shared == nil {
		return
	}
	d, m, p := l.net.spec.Hidden, &l.mem, &t.shared
	p.grad = reuse.Slice(p.grad, len(grad))
	for r := range l.rows {
		g, s := grad[r*d:(r+1)*d], t.scale[r]
		if n.sharedGate != nil {
			addScaled(m.a[r*d:(r+1)*d], n.sharedGate, dot(g, p.y[r*d:(r+1)*d])*s*(1-s))
		}
		for i, v := range g {
			p.grad[r*d+i] = s * v
		}
	}
	n.shared.backward(p, nil, &m.turned)
	cpu.Add(m.a, p.back)
}

func (l *Lane) uncall(i int, t *trace, grad []float32) {
	d, k, m := l.net.spec.Hidden, l.net.spec.TopK, &l.mem
	for e := range t.calls {
		c := &t.calls[e]
		var into *Gradient
		if c.student >= 0 {
			into = &l.Gradients[i][c.student]
		}
		if c.n == 0 {
			if into != nil {
				*into = Gradient{}
			}
			continue
		}
		c.grad = reuse.Slice(c.grad, c.n*d)
		for j, at := range c.slots {
			g, w := grad[int(at)/k*d:(int(at)/k+1)*d], t.routes.Weight[at]
			m.c[at] = dot(g, c.y[j*d:(j+1)*d])
			for x, v := range g {
				c.grad[j*d+x] = w * v
			}
		}
		c.net.backward(&c.passed, into, &m.turned)
		for j, at := range c.slots {
			cpu.Add(m.a[int(at)/k*d:(int(at)/k+1)*d], c.back[j*d:(j+1)*d])
		}
	}
}

// unroute adds what the slots' weights, whose gradients are l.mem.c, make of the gate's input.
func (l *Lane) unroute(n *layer, t *trace) {
	k, experts, m := l.net.spec.TopK, l.net.spec.Experts, &l.mem
	m.b = reuse.Slice(m.b, l.rows*experts) // of the gate's logits
	clear(m.b)
	for row := range l.rows {
		at, chosen := row*k, t.chosen[row*k:(row+1)*k]
		all, out, total := t.probability[row*experts:(row+1)*experts], m.b[row*experts:(row+1)*experts], float32(0)
		for _, e := range chosen {
			total += all[e]
		}
		if !n.spec.Router.Normalise {
			total = 1
		}
		mean := float32(0)
		for slot, e := range chosen {
			g := m.c[at+t.summed(at, slot, experts)]
			out[e] += all[e] / total * g
			mean += all[e] / total * g
		}
		if n.spec.Router.Normalise {
			for _, e := range chosen {
				out[e] -= all[e] / total * mean
			}
			continue
		}
		addScaled(out, all, -mean)
	}
	m.turned = multiply(m.turned, m.b, l.rows, n.router.back)
	cpu.Add(m.a, m.turned)
}

// summed is the slot in which a row's slot is computed: another one has its weight, too, where
// one student stands in for both.
func (t *trace) summed(at, slot, experts int) int {
	if t.routes.Expert[at+slot] != forward.NoExpert || t.of == nil {
		return slot
	}
	student := experts + t.of(t.chosen[at+slot])
	for other := range slot {
		if int(t.routes.Expert[at+other]) == student {
			return other
		}
	}
	return slot
}

// unmix takes grad back through a layer's attention.
func (l *Lane) unmix(n *layer, t *trace, grad []float32) {
	m, d, width, wide := &l.mem, l.net.spec.Hidden, n.qkv.forth.N, n.o.forth.K
	m.b = multiply(m.b, grad, l.rows, n.o.back)
	m.c = reuse.Slice(m.c, l.rows*width)
	clear(m.c)
	l.each(func(from, to int) {
		n.unmix(&m.head, m.c[from*width:to*width], m.b[from*wide:to*wide], t.qkv[from*width:to*width], to-from)
		for r := from; r < to; r++ {
			n.turn(m.c[r*width:(r+1)*width], r-from, true)
		}
	})
	m.a = multiply(m.a, m.c, l.rows, n.qkv.back)
	for r := 0; r < len(grad); r += d {
		unnorm(grad[r:r+d], m.a[r:r+d], t.x[r:r+d], n.before, n.spec.Norm.Eps)
	}
}
