package bench

import (
	"cmp"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Ways are the constants of formulas: the paper's, and what is 0 there.
type Ways struct {
	Access       float64 `json:"store_access_seconds"`     // T_dl
	Grow         float64 `json:"store_grow_seconds"`       // T_r: of each doubling of the server's read buffer that an object brings about
	StoreBytes   float64 `json:"store_bytes_per_second"`   // B_s
	Message      float64 `json:"message_seconds"`          // of no bytes
	MessageGrow  float64 `json:"message_grow_seconds"`     // the same of a message
	MessageWait  float64 `json:"message_wait_seconds"`     // T_w: of a message that the server's largest buffer does not hold
	MessageBytes float64 `json:"message_bytes_per_second"` // B_d
	Pipeline     float64 `json:"pipeline_seconds"`         // beside that, of what fetches and stores beside a computation
}

// A server reads with a buffer of 512 bytes first, which it doubles whenever it is full, up to 64 KiB.
const leastBuffer, mostBuffer = 512, 64 << 10

// doublings are those that so many bytes bring about.
func doublings(bytes float64) float64 { return math.Log2(1 + min(bytes, mostBuffer)/leastBuffer) }

// waits is 1 where a server reads so many bytes in more than one piece, however large its buffer: their sender waits for it to come back.
func waits(bytes float64) float64 {
	if bytes < mostBuffer {
		return 0
	}
	return 1
}

func (w *Ways) object(bytes float64) float64 {
	return w.Access + w.Grow*doublings(bytes) + bytes/w.StoreBytes
}

// message is what one of so many bytes takes.
func (w *Ways) message(bytes float64) float64 {
	return w.Message + w.MessageGrow*doublings(bytes) + w.MessageWait*waits(bytes) + bytes/w.MessageBytes
}

// says is the host's time by formulas, of a host that is warm and computes for so long: only the message that begins it
// comes before. Rows have as many bytes on either way, so that of t1's maximum the way with computing is the longer one.
func (w *Ways) says(m *Timed, rows, each int, compute float64) float64 {
	bytes := float64(rows * each)
	switch m.Mode {
	case plan.TransferName(plan.Direct):
		return w.message(bytes) + compute
	case plan.TransferName(plan.Indirect):
		return w.Message + compute + 2*w.object(bytes)
	}
	return w.Message + w.Pipeline + compute + float64(parts(rows, m.Minibatch)+1)*w.object(float64(m.Minibatch*each))
}

// fit takes the constants of every other reading, with what is not printed and without.
func (t *Transfers) fit() {
	for i := range t.Readings {
		t.Readings[i].Fits = i%2 == 0
	}
	t.Ways, t.Printed = t.ways(1), t.ways(0)
}

// Factors are fewer than readings, so that these say something of them.
const leastDirect, leastIndirect = 5, 4

// ways are constants by the least squares of what is left of a host's time beside computing, by that time; ours is 1 with what is not
// printed. Of too few readings they are those of the store and of messages by themselves.
func (t *Transfers) ways(ours float64) (w Ways) {
	direct, indirect, pipelined := t.fitting(plan.Direct), t.fitting(plan.Indirect), t.fitting(plan.Pipelined)
	if len(direct) < 2 || len(indirect) < 2 {
		return t.Itself
	}
	if len(direct) < leastDirect || len(indirect) < leastIndirect {
		ours = 0
	}
	message := leastSquares(direct, func(p point) []float64 {
		return []float64{1, p.x, ours * doublings(p.x), ours * waits(p.x)}
	})
	w.Message, w.MessageBytes, w.MessageGrow, w.MessageWait = message[0], 1/max(message[1], 1e-15), message[2], message[3]
	for i := range indirect {
		indirect[i].seconds -= w.Message
	}
	store := leastSquares(indirect, func(p point) []float64 { return []float64{2, 2 * p.x, 2 * ours * doublings(p.x)} })
	w.Access, w.StoreBytes, w.Grow = store[0], 1/max(store[1], 1e-15), store[2]
	for i := range pipelined {
		p := &pipelined[i]
		p.seconds -= w.says(p.of, int(p.x)/t.RowBytes, t.RowBytes, 0)
	}
	w.Pipeline = leastSquares(pipelined, func(point) []float64 { return []float64{1} })[0]
	return w
}

// fitting are the readings of a mode that constants are of: its bytes, and the host's time without computing.
func (t *Transfers) fitting(mode pb.TransferMode) (points []point) {
	for i := range t.Readings {
		r := &t.Readings[i]
		for j := range r.Modes {
			if m := &r.Modes[j]; r.Fits && m.Mode == plan.TransferName(mode) {
				points = append(points, point{float64(r.Bytes), m.Seconds - m.Compute, m.Seconds, m})
			}
		}
	}
	return points
}

// judge says what formulas say of each reading.
func (t *Transfers) judge() {
	for i := range t.Readings {
		r := &t.Readings[i]
		r.Formula = math.Sqrt(float64(r.Bytes) / (t.Printed.StoreBytes * cmp.Or(t.Printed.Access, 1e-9)))
		for j := range r.Modes {
			m := &r.Modes[j]
			m.Model = m.said(t.Ways.says(m, r.Rows, t.RowBytes, m.Compute), !r.Fits)
			m.Line = m.said(t.Printed.says(m, r.Rows, t.RowBytes, m.Compute), !r.Fits)
		}
	}
}

// point is what so many bytes took, of a time that errors are compared with.
type point struct {
	x, seconds, by float64
	of             *Timed
}

// pointOf is what so many bytes took in the middle of several times.
func pointOf(bytes int, times []float64) point {
	m := median(times)
	return point{x: float64(bytes), seconds: m, by: m}
}

func line(points []point) (first, rate float64) {
	c := leastSquares(points, func(p point) []float64 { return []float64{1, p.x} })
	return c[0], 1 / max(c[1], 1e-15)
}

// sweeps are enough for a few factors to settle.
const sweeps = 20000

// leastSquares are the factors of what points are made of, none below 0, with the least squares of relative errors: each in turn is the
// best beside the others, until none moves.
func leastSquares(points []point, of func(point) []float64) []float64 {
	rows := make([][]float64, len(points))
	for i, p := range points {
		rows[i] = of(p)
	}
	x := make([]float64, len(of(point{})))
	for range sweeps {
		for f := range x {
			var left, all float64
			for i, p := range points {
				rest, weight := p.seconds+rows[i][f]*x[f], 1/(p.by*p.by)
				for g, part := range rows[i] {
					rest -= part * x[g]
				}
				left, all = left+weight*rows[i][f]*rest, all+weight*rows[i][f]*rows[i][f]
			}
			if all > 0 {
				x[f] = max(0, left/all)
			}
		}
	}
	return x
}
