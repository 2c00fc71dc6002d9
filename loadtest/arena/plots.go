package arena

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a plot.
const (
	plotWidth  = 12 * vg.Centimeter
	plotHeight = 8 * vg.Centimeter
)

// colors tell policies apart, on paper and by most eyes (Okabe and Ito's).
var colors = []color.Color{
	color.RGBA{0x00, 0x00, 0x00, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0x99, 0x99, 0x99, 0xff},
}

// series is a line of a plot.
type series struct {
	name   string
	points plotter.XYs
}

// axes are what a plot shows.
type axes struct {
	title, x, y string
	// logX is a logarithmic axis, with the legend where curves of shares are not.
	logX bool
}

// lines draws series over common axes.
func lines(a axes, all []series) (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.title, a.x, a.y
	p.Legend.Top, p.Legend.Left = true, a.logX
	if a.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, s := range all {
		l, err := plotter.NewLine(s.points)
		if err != nil {
			return "", fmt.Errorf("drawing %s of %q: %w", s.name, a.title, err)
		}
		l.Color, l.Width = colors[i%len(colors)], vg.Points(1.5)
		p.Add(l)
		p.Legend.Add(s.name, l)
	}
	p.Add(plotter.NewGrid())
	if a.logX && p.X.Min == p.X.Max { // the library would begin below 0, where no logarithm is
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	return svg(p)
}

// bars draws one group of bars a name, one bar a series in each.
func bars(title, y string, groups []string, all []series) (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, y
	p.Legend.Top = true
	width := vg.Points(240 / float64(max(1, len(groups)*(len(all)+1))))
	for i, s := range all {
		values := make(plotter.Values, len(s.points))
		for j, at := range s.points {
			values[j] = at.Y
		}
		b, err := plotter.NewBarChart(values, width)
		if err != nil {
			return "", fmt.Errorf("drawing %s of %q: %w", s.name, title, err)
		}
		b.Color, b.LineStyle.Width = colors[i%len(colors)], 0
		b.Offset = width * vg.Length(float64(i)-float64(len(all)-1)/2)
		p.Add(b)
		p.Legend.Add(s.name, b)
	}
	p.NominalX(groups...)
	p.Y.Min = 0
	return svg(p)
}

// svg is a plot as it stands in a page.
func svg(p *plot.Plot) (template.HTML, error) {
	c := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("drawing %q: %w", p.Title.Text, err)
	}
	text := b.String()
	return template.HTML(text[max(0, strings.Index(text, "<svg")):]), nil // the library escapes texts
}
