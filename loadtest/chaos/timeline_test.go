package chaos

import (
	"bytes"
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

// The size of the picture.
const (
	width      = 40 * vg.Centimeter
	lineHeight = 14 // points
	barHeight  = 8  // points
	margin     = 6  // lines, for the title and the axis
)

// drawn is the shortest stall that is drawn.
const drawn = 300 * time.Millisecond

var (
	gray = color.RGBA{0xc8, 0xc8, 0xc8, 0xff}
	red  = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	blue = color.RGBA{0x00, 0x72, 0xb2, 0xff}
)

// bar is a time on a line of the picture.
type bar struct {
	line     int
	from, to time.Duration
	color    color.Color
}

// bars is the picture's content, line 0 at the top.
type bars struct {
	all   []bar
	lines int
}

func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, bar := range b.all {
		from, to := x(bar.from.Seconds()), x(bar.to.Seconds())
		middle := y(float64(b.lines - 1 - bar.line))
		low, high := middle-vg.Points(barHeight/2), middle+vg.Points(barHeight/2)
		to = max(to, from+vg.Points(1))
		c.FillPolygon(bar.color, []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
	}
}

func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	for _, bar := range b.all {
		xmax = max(xmax, bar.to.Seconds())
	}
	return 0, xmax, -0.5, float64(b.lines) - 0.5
}

// Timeline draws a line for each kind of fault, and one for each worker with its
// requests and their stalls.
func (r *Run) Timeline() ([]byte, error) {
	p, lines := r.plot()
	c := vgsvg.New(width, vg.Points(float64(lineHeight*(lines+margin))))
	p.Draw(draw.New(c))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("drawing the timeline: %w", err)
	}
	return out.Bytes(), nil
}

func (r *Run) plot() (p *plot.Plot, lines int) {
	b, names := r.bars()
	p = plot.New()
	p.Title.Text, p.X.Label.Text = r.Title+": faults (blue), requests (gray), stalls (orange)", "seconds"
	var ticks []plot.Tick
	for i, name := range names {
		ticks = append(ticks, plot.Tick{Value: float64(b.lines - 1 - i), Label: name})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Label.Font.Size = font.Length(lineHeight * 2 / 3)
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid, b)
	return p, len(names)
}

func (r *Run) bars() (b *bars, names []string) {
	b = &bars{}
	lines := map[schedule.Kind]int{}
	for i, k := range schedule.Kinds {
		lines[k] = i
		names = append(names, string(k))
	}
	for _, h := range r.Hits {
		if !h.Skipped {
			b.all = append(b.all, bar{line: lines[h.Kind], from: h.Began, to: h.Back, color: blue})
		}
	}
	names = append(names, r.requests(b, len(names))...)
	b.lines = len(names)
	return b, names
}

// requests adds the workers' lines below the first ones.
func (r *Run) requests(b *bars, first int) (names []string) {
	worker, workers := map[string]int{}, 0
	for _, s := range r.Load.Spans {
		worker[s.Request] = s.Worker
		workers = max(workers, s.Worker+1)
		b.all = append(b.all, bar{line: first + s.Worker, from: s.From, to: s.To, color: gray})
	}
	for _, s := range r.Load.Stalls {
		if w, ok := worker[s.Request]; ok && s.Length() >= drawn {
			b.all = append(b.all, bar{line: first + w, from: s.From, to: s.To, color: red})
		}
	}
	for w := range workers {
		names = append(names, fmt.Sprintf("worker %d", w))
	}
	return names
}
