package arena

import (
	"fmt"
	"html/template"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// OffloadPicture is what one request's gates said of each layer's experts: of its first generated
// row, and in the mean of all (figure 3a).
type OffloadPicture struct {
	Shape   string      `json:"shape"`
	Routing string      `json:"routing"`
	Row     [][]float64 `json:"first_row"` // by layer and expert
	Mean    [][]float64 `json:"mean"`
	Rows    int         `json:"rows"`
}

// draw notes the first request's that has generated rows, of one traffic of the shape.
func (b *offloadBench) draw() {
	if b.job.seed != b.Seed || b.job.routing != routingFitted && b.job.routing != routingRecorded {
		return
	}
	for _, text := range b.traffic.Served {
		if text.N > text.Prompt {
			b.picture = pictureOf(b.traffic, text)
			b.picture.Shape, b.picture.Routing = b.job.shape, b.job.routing
			return
		}
	}
}

func pictureOf(t offload.Traffic, text *routing.Rows) *OffloadPicture {
	p := &OffloadPicture{Row: grid(t.Layers, t.Experts), Mean: grid(t.Layers, t.Experts), Rows: text.N - text.Prompt}
	for i := range p.Rows {
		for j, v := range text.Map(text.Prompt + i) {
			l, e := j/t.Experts, j%t.Experts
			p.Mean[l][e] += float64(v) / float64(p.Rows)
			if i == 0 {
				p.Row[l][e] = float64(v)
			}
		}
	}
	return p
}

func grid(layers, experts int) [][]float64 {
	rows := make([][]float64, layers)
	for l := range rows {
		rows[l] = make([]float64, experts)
	}
	return rows
}

// cells is a grid that is drawn: experts from left to right, layers upwards.
type cells [][]float64

// Dims, Z, X and Y implement plotter.GridXYZ.
func (c cells) Dims() (columns, rows int) { return len(c[0]), len(c) }
func (c cells) Z(column, row int) float64 { return c[row][column] }
func (c cells) X(column int) float64      { return float64(column) }
func (c cells) Y(row int) float64         { return float64(row + 1) }

// grays are a palette from white to black.
type grays struct{}

// Colors implements palette.Palette.
func (grays) Colors() (all []color.Color) {
	for shade := range 32 {
		all = append(all, color.Gray{Y: uint8(255 - 8*shade)})
	}
	return all
}

// pictures are figure 3a.
func (r *OffloadReport) pictures() (all []figure, err error) {
	for _, p := range r.Pictures {
		for _, one := range []struct {
			of          [][]float64
			name, words string
		}{
			{p.Row, "one step", "of its first generated row, as fine-grained patterns have it"},
			{p.Mean, "a request", fmt.Sprintf("in the mean of its %d, as request-level counts have it", p.Rows)},
		} {
			drawn, err := heat(p.Shape+": "+one.name, one.of)
			if err != nil {
				return nil, err
			}
			all = append(all, figure{drawn, p.Shape + ", " + p.Routing + ": what a request's gates say of experts (columns) by layer, " + one.words + "; dark is probable (figure 3a)."})
		}
	}
	return all, nil
}

// heat draws a grid, from light to dark.
func heat(title string, of [][]float64) (template.HTML, error) {
	h := plotter.NewHeatMap(cells(of), grays{})
	h.Min, h.Max = 0, 1
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "expert", "layer"
	p.Add(h)
	return svg(p)
}

// turned are a plot's series with x and y in each other's place.
func turned(all []series) []series {
	for _, s := range all {
		for i, p := range s.points {
			s.points[i] = plotter.XY{X: p.Y, Y: p.X}
		}
	}
	return all
}
