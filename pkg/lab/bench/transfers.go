package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TransferSettings say what of transfers is measured.
type TransferSettings struct {
	Model *model.Model
	Pool  *pool.Pool
	Wire  tensor.Wire
	Hops  schemas.Hops
	// Rows are those of one expert, of one dispatch.
	Rows []int
	// Rounds are the turns of which a median is taken.
	Rounds   int
	Progress func(format string, args ...any)
}

// mostMinibatches is how many minibatches rows are cut into at most.
const mostMinibatches = 64

// Timed is a transfer mode with so many rows: a host's time with them, that of them which it computed,
// and the whole way's, medians of all turns; what the formula says of the host's; and how far apart two
// runs of the same are.
type Timed struct {
	Mode    string  `json:"mode"`
	Seconds float64 `json:"host_seconds"`
	Compute float64 `json:"compute_seconds"`
	Latency float64 `json:"latency_seconds"`
	// Model has the constants of transfers, Alone those of the store and of messages by themselves.
	// Beside is of pipelined rows where a host fetches while it computes, which the formula does not.
	Model       float64 `json:"model_seconds"`
	Error       float64 `json:"model_error"`
	Alone       float64 `json:"model_alone_seconds"`
	Beside      float64 `json:"model_beside_seconds,omitempty"`
	BesideError float64 `json:"model_beside_error,omitempty"`
	Apart       float64 `json:"runs_apart"`
	// Verdict is of the formula: within 5 %, as near as two runs are to each other, or beyond both; empty
	// where its constants are of this row.
	Verdict   string `json:"verdict,omitempty"`
	Minibatch int    `json:"minibatch,omitempty"`
}

// Verdicts of formulas, and how near one is to be.
const (
	near       = "within 5 %"
	likeRuns   = "as near as two runs"
	beyond     = "beyond"
	nearEnough = 0.05
)

// verdict is a formula's.
func (t *Timed) verdict() string {
	switch off := math.Abs(t.Error); {
	case off <= nearEnough:
		return near
	case off <= t.Apart:
		return likeRuns
	}
	return beyond
}

// TransferReading is what so many rows of an expert take, by mode. A mode that cannot is missing.
type TransferReading struct {
	Rows    int     `json:"rows"`
	Bytes   int     `json:"bytes"`
	Compute float64 `json:"compute_seconds"`
	Modes   []Timed `json:"modes"`
	// Best is the number of minibatches with the least time of the host, and Formula sqrt(r·D_out/(B_s·T_dl)).
	Best    int     `json:"best_minibatches"`
	Formula float64 `json:"formula_minibatches"`
	// Fits says that constants are of these turns, so that formulas are judged by the other readings.
	Fits bool `json:"fits"`
}

// Ways are the constants of formulas.
type Ways struct {
	Access       float64 `json:"store_access_seconds"`     // T_dl
	StoreBytes   float64 `json:"store_bytes_per_second"`   // B_s
	Message      float64 `json:"message_seconds"`          // of no bytes
	MessageBytes float64 `json:"message_bytes_per_second"` // B_d
	Pipeline     float64 `json:"pipeline_seconds"`         // beside that, of what fetches and stores beside a computation
}

// TransferCosts are the constants, of transfers and of the store and of messages by themselves, and
// from how many rows on which mode is quicker.
type TransferCosts struct {
	Ways
	Itself         Ways    `json:"by_themselves"`
	Put            float64 `json:"store_put_seconds"`                // of no bytes
	Get            float64 `json:"store_get_seconds"`                // of no bytes
	RowBytes       int     `json:"row_bytes"`                        // D_in and D_out
	IndirectFrom   int     `json:"indirect_below_direct_from_rows"`  // 0: nowhere
	PipelinedFrom  int     `json:"pipelined_below_direct_from_rows"` // 0: nowhere
	PipelinedFirst int     `json:"pipelined_below_indirect_from_rows"`
	DirectUpTo     int     `json:"direct_up_to_rows"`
}

// Transfers are all readings.
type Transfers struct {
	TransferCosts
	Model    string            `json:"model"`
	Readings []TransferReading `json:"readings"`
}

// MeasureTransfers moves rows of one expert over a NATS server of its own in every mode.
func MeasureTransfers(ctx context.Context, s TransferSettings) (*Transfers, error) {
	s.Rows = slices.Compact(slices.Sorted(slices.Values(s.Rows)))
	y, err := openYard(ctx, s)
	if err != nil {
		return nil, err
	}
	defer y.close()
	s.Progress("measuring the store and messages…")
	out := &Transfers{Model: s.Model.Name}
	if out.TransferCosts, err = y.costs(ctx); err != nil {
		return nil, err
	}
	for _, rows := range s.Rows {
		s.Progress("moving %d rows…", rows)
		r, err := y.reading(ctx, out.TransferCosts, rows)
		if err != nil {
			return nil, fmt.Errorf("%d rows: %w", rows, err)
		}
		out.Readings = append(out.Readings, r)
	}
	out.fit()
	out.judge()
	out.breakEvens()
	return out, nil
}

// way is a mode with the rows of its minibatches.
type way struct {
	mode      pb.TransferMode
	minibatch int
}

// reading measures every mode with so many rows, in turns.
func (y *yard) reading(ctx context.Context, c TransferCosts, rows int) (r TransferReading, err error) {
	r = TransferReading{Rows: rows, Bytes: rows * c.RowBytes}
	if r.Compute, err = y.computes(ctx, rows); err != nil {
		return r, err
	}
	best, err := y.best(ctx, rows)
	if err != nil {
		return r, err
	}
	r.Best = parts(rows, best.minibatch)
	ways := []way{{plan.Indirect, 0}, best}
	if y.fits(rows) {
		ways = append([]way{{plan.Direct, 0}}, ways...)
	}
	times := make([][]carriage, len(ways))
	for range 2 * y.s.Rounds {
		for i, w := range ways {
			t, err := y.turn(ctx, w, rows)
			if err != nil {
				return r, err
			}
			times[i] = append(times[i], t)
		}
	}
	for i, w := range ways {
		r.Modes = append(r.Modes, timed(w, times[i]))
	}
	return r, nil
}

// timed is the medians of turns, those of the first and the second half being two runs.
func timed(w way, turns []carriage) Timed {
	of := func(turns []carriage, what func(carriage) float64) float64 {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = what(t)
		}
		return median(all)
	}
	host := func(t carriage) float64 { return t.host.Seconds() }
	t := Timed{
		Mode: plan.TransferName(w.mode), Minibatch: w.minibatch,
		Seconds: of(turns, host), Compute: of(turns, func(t carriage) float64 { return t.compute.Seconds() }), Latency: of(turns, func(t carriage) float64 { return t.whole.Seconds() }),
	}
	half := len(turns) / 2
	t.Apart = math.Abs(of(turns[:half], host)/of(turns[half:], host) - 1)
	return t
}

// best is the pipelined way with the least time of the host, of a few turns each.
func (y *yard) best(ctx context.Context, rows int) (best way, err error) {
	least := math.Inf(1)
	for n := 1; n <= min(rows, mostMinibatches); n *= 2 {
		w := way{plan.Pipelined, (rows + n - 1) / n}
		var times []float64
		for range y.s.Rounds {
			t, err := y.turn(ctx, w, rows)
			if err != nil {
				return best, err
			}
			times = append(times, t.host.Seconds())
		}
		if m := median(times); m < least {
			best, least = w, m
		}
	}
	return best, nil
}

// parts is how many minibatches rows make.
func parts(rows, minibatch int) int { return (rows + minibatch - 1) / minibatch }

// fit takes the constants from every other reading of direct and indirect rows: what is left of a
// host's time beside computing.
func (t *Transfers) fit() {
	var direct, indirect []point
	first := Timed{}
	for i := range t.Readings {
		r := &t.Readings[i]
		if i%2 > 0 {
			continue
		}
		r.Fits = true
		for _, m := range r.Modes {
			left := point{float64(r.Bytes), max(0, m.Seconds-m.Compute)}
			switch m.Mode {
			case plan.TransferName(plan.Direct):
				direct = append(direct, left)
			case plan.TransferName(plan.Indirect):
				indirect = append(indirect, point{2 * left.bytes, left.seconds})
			default:
				if first.Mode == "" {
					first = m
				}
			}
		}
	}
	if len(direct) < 2 || len(indirect) < 2 {
		t.Ways = t.Itself
		return
	}
	t.Message, t.MessageBytes = line(direct)
	both, rate := line(indirect)
	t.Access, t.StoreBytes = max(both-t.Message, 1e-9)/2, rate
	t.Pipeline = max(0, first.Seconds-t.says(&first, t.Readings[0].Rows, t.RowBytes))
}

// judge says what formulas say of each reading.
func (t *Transfers) judge() {
	for i := range t.Readings {
		r := &t.Readings[i]
		r.Formula = math.Sqrt(float64(r.Bytes) / (t.StoreBytes * t.Access))
		for j := range r.Modes {
			m := &r.Modes[j]
			m.Model, m.Alone = t.says(m, r.Rows, t.RowBytes), t.Itself.says(m, r.Rows, t.RowBytes)
			m.Error = m.Model/m.Seconds - 1
			if m.Minibatch > 0 {
				m.Beside = t.beside(m, r.Rows, t.RowBytes)
				m.BesideError = m.Beside/m.Seconds - 1
			}
			if !r.Fits || m.Minibatch > 0 && i > 0 {
				m.Verdict = m.verdict()
			}
		}
	}
}

// says is the host's time by the formulas, of a host that is warm: only the message that begins it comes before.
func (w Ways) says(m *Timed, rows, each int) float64 {
	bytes := float64(rows * each)
	switch m.Mode {
	case plan.TransferName(plan.Direct):
		return m.Compute + w.Message + bytes/w.MessageBytes
	case plan.TransferName(plan.Indirect):
		return w.Message + 2*w.Access + m.Compute + 2*bytes/w.StoreBytes
	}
	n, move := float64(parts(rows, m.Minibatch)), float64(m.Minibatch*each)/w.StoreBytes
	return w.Message + w.Pipeline + n*(w.Access+max(move+m.Compute/n, move)) + w.Access + move
}

// beside is that of pipelined rows where fetching, computing and storing are beside each other.
func (w Ways) beside(m *Timed, rows, each int) float64 {
	n := float64(parts(rows, m.Minibatch))
	move, compute := w.Access+float64(m.Minibatch*each)/w.StoreBytes, m.Compute/n
	return w.Message + w.Pipeline + 2*move + compute + (n-1)*max(move, compute)
}

// breakEvens finds from how many rows on one mode is quicker than another, as measured.
func (t *Transfers) breakEvens() {
	latency := func(r TransferReading, mode pb.TransferMode) float64 {
		for _, m := range r.Modes {
			if m.Mode == plan.TransferName(mode) {
				return m.Latency
			}
		}
		return math.Inf(1)
	}
	from := func(a, b pb.TransferMode) (rows int) {
		for _, r := range slices.Backward(t.Readings) {
			if latency(r, a) >= latency(r, b) {
				return rows
			}
			rows = r.Rows
		}
		return rows
	}
	t.IndirectFrom, t.PipelinedFrom, t.PipelinedFirst = from(plan.Indirect, plan.Direct), from(plan.Pipelined, plan.Direct), from(plan.Pipelined, plan.Indirect)
	for _, r := range t.Readings {
		if !math.IsInf(latency(r, plan.Direct), 1) {
			t.DirectUpTo = r.Rows
		}
	}
}

// String is all readings for people.
func (t *Transfers) String() string {
	text := fmt.Sprintf("in transfers: store %.0f µs an access, %.0f MB/s; message %.0f µs, %.0f MB/s; a pipeline %.0f µs; a row has %d bytes\n",
		1e6*t.Access, t.StoreBytes/1e6, 1e6*t.Message, t.MessageBytes/1e6, 1e6*t.Pipeline, t.RowBytes)
	text += fmt.Sprintf("by themselves: store %.0f µs an access (%.0f to put, %.0f to get), %.0f MB/s; message %.0f µs, %.0f MB/s\n",
		1e6*t.Itself.Access, 1e6*t.Put, 1e6*t.Get, t.Itself.StoreBytes/1e6, 1e6*t.Itself.Message, t.Itself.MessageBytes/1e6)
	for _, r := range t.Readings {
		text += fmt.Sprintf("%6d rows, %.2f ms to compute%s:", r.Rows, 1e3*r.Compute, map[bool]string{true: " (constants are of these)"}[r.Fits])
		for _, m := range r.Modes {
			text += fmt.Sprintf("  %s %.3f ms on the host (%.3f of them compute; formula %+.1f %%%s, two runs %.1f %% apart%s), %.3f in all;",
				m.Mode, 1e3*m.Seconds, 1e3*m.Compute, 100*m.Error, besideText(m), 100*m.Apart, after(": ", m.Verdict), 1e3*m.Latency)
		}
		text += fmt.Sprintf("  best of %d minibatches, %.1f by the formula\n", r.Best, r.Formula)
	}
	return text + t.verdicts() + fmt.Sprintf("quicker in all: indirect than direct %s, pipelined than direct %s, pipelined than indirect %s; messages take %d rows\n",
		fromRows(t.IndirectFrom), fromRows(t.PipelinedFrom), fromRows(t.PipelinedFirst), t.DirectUpTo)
}

// verdicts counts them.
func (t *Transfers) verdicts() string {
	n := map[string]int{}
	for _, r := range t.Readings {
		for _, m := range r.Modes {
			n[m.Verdict]++
		}
	}
	return fmt.Sprintf("formulas: %d %s, %d %s of the same transfer, %d %s both; %d are of their own constants\n", n[near], near, n[likeRuns], likeRuns, n[beyond], beyond, n[""])
}

func besideText(m Timed) string {
	if m.Minibatch == 0 {
		return ""
	}
	return fmt.Sprintf(", fetching beside computing %+.1f %%", 100*m.BesideError)
}

// after is a text behind another one; nothing where it is empty.
func after(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func fromRows(n int) string {
	if n == 0 {
		return "nowhere"
	}
	return fmt.Sprintf("from %d rows on", n)
}

// carriage is one transfer: the host's time, what it computed of that, and the time from a gate's
// beginning to an aggregator's end.
type carriage struct{ host, compute, whole time.Duration }

// point is what so many bytes took.
type point struct{ bytes, seconds float64 }

// line is what the fewest bytes take, and how many bytes pass in a second beyond: the least squares of
// relative differences.
func line(points []point) (first, rate float64) {
	least := slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.bytes, b.bytes) })
	xx, xy := 0.0, 0.0
	for _, p := range points {
		x, weight := p.bytes-least.bytes, 1/(p.seconds*p.seconds)
		xx, xy = xx+weight*x*x, xy+weight*x*(p.seconds-least.seconds)
	}
	return least.seconds, 1 / max(xy/xx, 1e-15)
}
