package cuda

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Gates are a model's on one GPU. They choose the experts that forward.Router chooses, with
// the same bits, so that they are of the CPU's numeric class.
//
//	arena: │ weights │ rows │ logits │ choices │
type Gates struct {
	*health
	spec    *model.Spec
	driver  cuda.Driver
	arena   *cuda.Arena
	layers  []*gateWeights // nil for dense layers
	kernels gateKernels
	rows    int // of one launch at most

	mu   sync.Mutex // calls take turns
	lane *gateLane
}

var (
	_ forward.Gates = (*Gates)(nil)
	_ device.Failer = (*Gates)(nil)
)

// OpenGates takes as much of a GPU's memory as the gates need, and brings their weights
// there. The driver is theirs from then on, also when opening fails; the model is the
// caller's. A call may take patience, or DefaultPatience if that is 0.
func OpenGates(ctx context.Context, m *model.Model, driver cuda.Driver, images cuda.Images, patience time.Duration) (_ *Gates, err error) {
	g := &Gates{health: newHealth(cmp.Or(patience, DefaultPatience)), spec: &m.Spec, driver: driver}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if err := CheckGates(m); err != nil {
		return nil, err
	}
	if g.kernels, err = openGateKernels(driver, images, m); err != nil {
		return nil, err
	}
	return g, g.open(ctx, m)
}

// open takes the memory, which is known to the byte, and fills it.
func (g *Gates) open(ctx context.Context, m *model.Model) (err error) {
	g.rows = gateRows(g.spec)
	sized, buffers := gatePlaces{m: m}, gateBuffersOf(g.spec, g.rows)
	sized.gates()
	if sized.err != nil {
		return sized.err
	}
	if g.arena, err = cuda.NewArena(g.driver, sized.bytes+buffers.bytes(), "this gate"); err != nil {
		return err
	}
	base, err := g.arena.Take(sized.bytes, "gates of model "+m.Name)
	if err != nil {
		return err
	}
	p := gatePlaces{m: m, base: base}
	g.layers = p.gates()
	if err := p.copy(ctx, g.driver, g.health); err != nil {
		return fmt.Errorf("copying gates' weights to the GPU: %w", err)
	}
	g.lane, err = newGateLane(g.driver, g.arena, buffers, g.health)
	return err
}

// Route chooses experts for x (R, D), in pieces if there are more rows than buffers.
func (g *Gates) Route(layer int, x []float32, out *forward.Routes) error {
	if layer < 0 || layer >= len(g.layers) || g.layers[layer] == nil {
		return fmt.Errorf("layer %d has no gate in this model", layer)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d, k := g.spec.Hidden, g.spec.TopK
	rows := len(x) / d
	out.K, out.Expert, out.Weight = k, resize(out.Expert, rows*k), resize(out.Weight, rows*k)
	for from := 0; from < rows; from += g.rows {
		to := min(from+g.rows, rows)
		if err := g.piece(g.layers[layer], x[from*d:to*d], out.Expert[from*k:to*k], out.Weight[from*k:to*k]); err != nil {
			return failed(err)
		}
	}
	return nil
}

// piece chooses for as many rows as there are buffers for at most.
func (g *Gates) piece(of *gateWeights, x []float32, expert []int32, weight []float32) error {
	if err := g.Err(); err != nil {
		return err
	}
	l, d := g.lane, g.spec.Hidden
	n, kp, e := len(x)/d, padded(d), g.spec.Experts
	in := view[float32](l.in, 0)
	eachRow(n, d, func(i int) { copy(in[i*kp:], x[i*d:(i+1)*d]) })
	behind := ceil(4*len(expert), 16) * 16 // experts' bytes; then weights
	l.err = nil
	l.copyIn(l.at.x, l.in[:4*n*kp])
	k := &g.kernels.logits[of.format]
	l.launch(k.kernel, ceil(e, logitExperts), ceil(n, logitRows), 1, logitThreads, k.shared, append(l.args[:0],
		uint64(l.at.logits), uint64(l.at.x), uint64(of.matrix), uint64(of.bias), uint64(n), uint64(e), uint64(kp)))
	l.launch(g.kernels.route, n, 1, 1, 32, routeShared(e), append(l.args[:0],
		uint64(l.at.chosen), uint64(l.at.chosen)+uint64(behind), uint64(l.at.logits), uint64(of.correction),
		uint64(e), uint64(g.spec.TopK), uint64(of.spec.Kind), flag(of.spec.Normalise),
		uint64(of.groups()), uint64(of.spec.TopGroups), flag(of.spec.GroupPairs), float(of.spec.Scale), float(of.spec.Threshold)))
	l.copyOut(l.out[:behind+4*len(weight)], l.at.chosen)
	if l.settle(l.done); l.err != nil {
		return l.err
	}
	copy(expert, view[int32](l.out, 0))
	copy(weight, view[float32](l.out, behind))
	return nil
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// Close ends the gates and their driver, when no call is under way. A lost GPU is asked for
// nothing: all of it goes with the process.
func (g *Gates) Close() {
	lost := g.Err() != nil
	if g.lane != nil {
		g.lane.close(lost)
		g.lane = nil
	}
	closeDriver(g.driver, g.arena, lost)
}
