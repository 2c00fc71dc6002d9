package cuda

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// stepShape is what the launches of a step depend on whose rows are all attended in splits.
// Both are rounded up, so that one shape serves many steps: rows beyond the step's are in no
// tile and see nothing, and what is computed of them stays in the lane's buffers and in the
// page Backbone.scratch.
type stepShape struct{ rows, splits int }

type shapeGraphs struct {
	stepShape
	of map[pieceSpan]cuda.Graph
}

// piece is what one call of a lane launches for a layer.
type piece struct{ layer, kind int }

// The kinds of pieces.
const (
	attendPiece = iota
	densePiece
	sharedPiece
	combinePiece
)

// pieceSpan is pieces from one to another: what a graph has.
type pieceSpan struct{ from, to piece }

// mostShapes is how many shapes a lane has graphs of.
const mostShapes = 8

// graphs are a lane's. What it is asked for waits until the host needs something of it, and goes
// to the GPU as one graph then.
type graphs struct {
	shapes  []*shapeGraphs // the least recently used first
	now     *shapeGraphs   // the step's; nil: its launches go one by one
	waiting []piece
}

// shape returns what the step has; false: some of its rows are attended in tiles.
func (l *stepLane) shape() (s stepShape, ok bool) {
	z, splits, ok := &l.b.sizes, 1, true
	runs(l.rows, func(from, to int) {
		ok = ok && !l.inTiles(to-from)
		splits = max(splits, ceil(reach(&l.rows[to-1]), splitPositions))
	})
	return stepShape{
		rows:   min(powerOfTwo(len(l.rows)), z.rows),
		splits: min(powerOfTwo(splits), ceil(z.positions, splitPositions)),
	}, ok
}

func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// choose finds the graphs of the step's shape. A shape has them from the second step on that has
// it. No launch of the lane is under way.
func (l *stepLane) choose() {
	l.now, l.waiting = nil, l.waiting[:0]
	if l.b.graphless.Load() {
		l.closeGraphs()
		return
	}
	s, ok := l.shape()
	if !ok {
		return
	}
	at := slices.IndexFunc(l.shapes, func(o *shapeGraphs) bool { return o.stepShape == s })
	switch {
	case at >= 0:
		l.now = l.shapes[at]
		l.shapes = append(slices.Delete(l.shapes, at, at+1), l.now)
	default:
		if len(l.shapes) == mostShapes {
			l.shapes[0].close()
			l.shapes = slices.Delete(l.shapes, 0, 1)
		}
		l.shapes = append(l.shapes, &shapeGraphs{s, map[pieceSpan]cuda.Graph{}})
	}
}

// stretchShape cuts a shape's rows into stretches of as many as the lane has room for.
func (l *stepLane) stretchShape(s stepShape) {
	most := l.b.sizes.partFloats / (s.splits * l.b.sizes.perSplit)
	for from := 0; from < s.rows; from += most {
		l.stretches = append(l.stretches, stretch{from, min(from+most, s.rows), s.splits})
	}
}

// compute launches a piece, or lets it wait for others that its graph has, too.
func (l *stepLane) compute(p piece) {
	if l.now == nil {
		l.launchPiece(p)
		return
	}
	l.waiting = append(l.waiting, p)
}

func (l *stepLane) launchPiece(p piece) {
	t := &l.b.layers[p.layer]
	switch p.kind {
	case attendPiece:
		l.attendLayer(t)
	case densePiece:
		l.network(t.dense, l.ffnInput(t), l.x(), true)
		l.after(t, &t.ffnNorm)
	case sharedPiece:
		l.shared(t)
	case combinePiece:
		l.combine(t)
	}
}

func (l *stepLane) flush() {
	if len(l.waiting) > 0 && l.err == nil {
		if g := l.graph(); g != nil {
			if l.err = l.health.judge(l.stream.Run(g)); l.err != nil && !errors.Is(l.err, cuda.ErrLost) {
				l.b.withoutGraphs(l.err)
			}
		} else {
			l.launchWaiting()
		}
	}
	l.waiting = l.waiting[:0]
}

func (l *stepLane) launchWaiting() {
	for _, p := range l.waiting {
		l.launchPiece(p)
	}
}

// graph is that of what waits; nil: there is none, and launches have to do.
func (l *stepLane) graph() cuda.Graph {
	key := pieceSpan{l.waiting[0], l.waiting[len(l.waiting)-1]}
	if g := l.now.of[key]; g != nil || l.b.graphless.Load() {
		return g
	}
	g, err := l.stream.Capture(func() error {
		l.launchWaiting()
		return l.err
	})
	if err == nil {
		l.now.of[key] = g
		return g
	}
	if l.err = nil; errors.Is(err, cuda.ErrLost) {
		l.err = l.health.judge(err)
		return nil
	}
	l.b.withoutGraphs(err)
	return nil
}

// withoutGraphs lets all steps from the next one on go by launches alone, and says once why.
func (b *Backbone) withoutGraphs(why error) {
	if b.graphless.CompareAndSwap(false, true) && b.tell != nil {
		b.tell(why)
	}
}

func (l *stepLane) closeGraphs() {
	for _, of := range l.shapes {
		of.close()
	}
	l.shapes = nil
}

func (s *shapeGraphs) close() {
	for _, g := range s.of {
		_ = g.Close() // what is wrong with the driver is said by a call that counts
	}
}
