package bench

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// Ways are the constants of the paper's formulas.
type Ways struct {
	Access       float64 `json:"store_access_seconds"`     // T_dl
	StoreBytes   float64 `json:"store_bytes_per_second"`   // B_s
	Message      float64 `json:"message_seconds"`          // of no bytes
	MessageBytes float64 `json:"message_bytes_per_second"` // B_d
	Pipeline     float64 `json:"pipeline_seconds"`         // beside that, of what fetches and stores beside a computation
}

// Corrected are those of the corrected formulas.
type Corrected struct {
	Message  float64 `json:"message_seconds"`      // T_m: of no bytes
	Messages Rates   `json:"message"`              // B_d
	Access   float64 `json:"store_access_seconds"` // T_dl
	Store    Rates   `json:"store"`                // B_s
	Pipeline float64 `json:"pipeline_seconds"`     // of what fetches and stores beside a computation
	Hidden   float64 `json:"hidden_ratio"`         // of moving a minibatch, what is hidden behind computing others
	Call     float64 `json:"compute_call_seconds"` // of an access, however many rows
	Row      float64 `json:"compute_row_seconds"`
}

// grown is how many bytes have passed until a server reads with its largest buffer: it begins with 512 and doubles it
// whenever it is full, up to 64 KiB. Until then bytes pass in more and smaller pieces, each a rendezvous of two goroutines.
const grown = 2*64<<10 - 512

// Rates are bytes a second while a server's buffer grows, and beyond.
type Rates struct {
	First  float64 `json:"first_bytes_per_second"`
	Beyond float64 `json:"bytes_per_second"`
}

// seconds of so many bytes.
func (r Rates) seconds(bytes float64) float64 {
	return min(bytes, grown)/r.First + max(0, bytes-grown)/r.Beyond
}

// fitting is every other reading: constants are of these, and formulas are judged by the others.
func (t *Transfers) fitting() (direct, indirect, computed []point) {
	for i := range t.Readings {
		r := &t.Readings[i]
		if r.Fits = i%2 == 0; !r.Fits {
			continue
		}
		for _, m := range r.Modes {
			left := point{float64(r.Bytes), max(1e-9, m.Seconds-m.Compute)}
			switch m.Mode {
			case plan.TransferName(plan.Direct):
				direct = append(direct, left)
			case plan.TransferName(plan.Indirect):
				indirect = append(indirect, left)
				computed = append(computed, point{float64(r.Rows), max(1e-9, m.Compute)})
			}
		}
	}
	return direct, indirect, computed
}

// fit takes the constants: what is left of a host's time beside computing.
func (t *Transfers) fit() {
	direct, indirect, computed := t.fitting()
	if len(direct) < 2 || len(indirect) < 2 {
		i := t.Itself
		t.Ways = i
		t.Corrected = Corrected{Message: i.Message, Messages: Rates{i.MessageBytes, i.MessageBytes}, Access: i.Access, Store: Rates{i.StoreBytes, i.StoreBytes}, Row: computed[0].seconds / computed[0].x}
		return
	}
	t.printed(direct, indirect)
	c := &t.Corrected
	c.Message, c.Messages = rates(direct)
	both, twice := rates(indirect)
	c.Access, c.Store = max(both-c.Message, 1e-9)/2, Rates{2 * twice.First, 2 * twice.Beyond}
	first, rate := line(computed)
	c.Row = 1 / rate
	c.Call = max(0, first-computed[0].x*c.Row)
	t.pipelines()
}

// printed takes the constants of the paper's formulas.
func (t *Transfers) printed(direct, indirect []point) {
	t.Message, t.MessageBytes = line(direct)
	both, rate := line(indirect)
	t.Access, t.StoreBytes = max(both-t.Message, 1e-9)/2, 2*rate
	first := &t.Readings[0]
	for i := range first.Modes {
		if m := &first.Modes[i]; m.Minibatch > 0 {
			t.Pipeline = max(0, m.Seconds-t.says(m, first.Rows, t.RowBytes, m.Compute))
		}
	}
}

// pipelines takes the constants of pipelined rows by the least squares of relative differences: those of one minibatch
// have what a pipeline takes, and those of several what is hidden of moving them.
func (t *Transfers) pipelines() {
	c, one, hides := &t.Corrected, mean{}, mean{}
	c.Pipeline, c.Hidden = 0, 0
	of := func(do func(m *Timed, n, move, left float64)) {
		for i := range t.Readings {
			r := &t.Readings[i]
			for j := range r.Modes {
				if m := &r.Modes[j]; r.Fits && m.Minibatch > 0 {
					do(m, float64(parts(r.Rows, m.Minibatch)), c.move(m.Minibatch*t.RowBytes), m.Seconds-c.says(m, r.Rows, t.RowBytes, m.Compute))
				}
			}
		}
	}
	of(func(m *Timed, n, _, left float64) {
		if n == 1 {
			one.add(left, 1/(m.Seconds*m.Seconds))
		}
	})
	c.Pipeline = max(0, one.value())
	of(func(m *Timed, n, move, left float64) {
		if all := (n - 1) * move; n > 1 {
			hides.add(-left/all, all*all/(m.Seconds*m.Seconds))
		}
	})
	c.Hidden = max(0, min(1, hides.value()))
}

// mean is one with weights; of nothing it is 0.
type mean struct{ sum, weights float64 }

func (m *mean) add(x, weight float64) { m.sum, m.weights = m.sum+weight*x, m.weights+weight }

func (m *mean) value() float64 { return m.sum / cmp.Or(m.weights, 1) }

// judge says what formulas say of each reading.
func (t *Transfers) judge() {
	for i := range t.Readings {
		r := &t.Readings[i]
		r.Formula = math.Sqrt(float64(r.Bytes) / (t.StoreBytes * t.Access))
		for j := range r.Modes {
			m := &r.Modes[j]
			computes := float64(max(1, calls(m, r.Rows)))*t.Corrected.Call + float64(r.Rows)*t.Corrected.Row
			m.Model = m.said(t.Corrected.says(m, r.Rows, t.RowBytes, m.Compute), !r.Fits)
			m.Whole = m.said(t.Corrected.says(m, r.Rows, t.RowBytes, computes), !r.Fits)
			m.Printed = m.said(t.says(m, r.Rows, t.RowBytes, m.Compute), !r.Fits)
		}
	}
}

// calls are those in which rows are computed.
func calls(m *Timed, rows int) int { return parts(rows, cmp.Or(m.Minibatch, rows)) }

// says is the host's time by the paper's formulas, of a host that is warm and computes for so long: only the message that
// begins it comes before.
func (w Ways) says(m *Timed, rows, each int, compute float64) float64 {
	bytes := float64(rows * each)
	switch m.Mode {
	case plan.TransferName(plan.Direct):
		return compute + w.Message + bytes/w.MessageBytes
	case plan.TransferName(plan.Indirect):
		return w.Message + 2*w.Access + compute + 2*bytes/w.StoreBytes
	}
	n, move := float64(parts(rows, m.Minibatch)), float64(m.Minibatch*each)/w.StoreBytes
	return w.Message + w.Pipeline + n*(w.Access+max(move+compute/n, move)) + w.Access + move
}

// says is that by the corrected formulas.
func (c *Corrected) says(m *Timed, rows, each int, compute float64) float64 {
	bytes := rows * each
	switch m.Mode {
	case plan.TransferName(plan.Direct):
		return c.Message + compute + c.Messages.seconds(float64(bytes))
	case plan.TransferName(plan.Indirect):
		return c.Message + compute + 2*c.move(bytes)
	}
	n, move := float64(parts(rows, m.Minibatch)), c.move(m.Minibatch*each)
	return c.Message + c.Pipeline + 2*move + compute + (n-1)*(1-c.Hidden)*move
}

// move is what an object of so many bytes takes.
func (c *Corrected) move(bytes int) float64 { return c.Access + c.Store.seconds(float64(bytes)) }

// point is what so many bytes, or rows, took.
type point struct{ x, seconds float64 }

// fewest is the point with the fewest.
func fewest(points []point) point {
	return slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
}

// line is what the fewest bytes take, and how many bytes pass in a second beyond: the least squares of
// relative differences.
func line(points []point) (first, rate float64) {
	from, xx, xy := fewest(points), 0.0, 0.0
	for _, p := range points {
		x, weight := p.x-from.x, 1/(p.seconds*p.seconds)
		xx, xy = xx+weight*x*x, xy+weight*x*(p.seconds-from.seconds)
	}
	return from.seconds, 1 / max(xy/xx, 1e-15)
}

// rates is what no bytes take, with a rate until a server's buffer has grown, and another one beyond.
func rates(points []point) (none float64, r Rates) {
	from := fewest(points)
	var uu, uv, vv, uy, vy float64
	for _, p := range points {
		u, v, y, weight := min(p.x, grown)-min(from.x, grown), max(0, p.x-grown)-max(0, from.x-grown), p.seconds-from.seconds, 1/(p.seconds*p.seconds)
		uu, uv, vv, uy, vy = uu+weight*u*u, uv+weight*u*v, vv+weight*v*v, uy+weight*u*y, vy+weight*v*y
	}
	det := uu*vv - uv*uv
	u, v := (uy*vv-vy*uv)/det, (vy*uu-uy*uv)/det
	r = Rates{1 / u, 1 / v}
	if !(u > 0 && v > 0) { // all of them are on one side, or they say nothing of it
		_, rate := line(points)
		r = Rates{rate, rate}
	}
	return max(1e-9, from.seconds-r.seconds(from.x)), r
}
