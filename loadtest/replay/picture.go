package replay

import (
	"bytes"
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	pictureWidth  = 24 * vg.Centimeter
	pictureHeight = 16 * vg.Centimeter
	// columns are how many times a picture tells apart, and shades how many numbers.
	columns = 60
	shades  = 12
)

// grid is a number for each expert of a layer, over time.
type grid struct {
	times  []float64
	values [][]float64 // by time, then expert
}

// Dims implements plotter.GridXYZ.
func (g *grid) Dims() (c, r int) { return len(g.times), len(g.values[0]) }

// Z implements plotter.GridXYZ.
func (g *grid) Z(c, r int) float64 { return g.values[c][r] }

// X implements plotter.GridXYZ.
func (g *grid) X(c int) float64 { return g.times[c] }

// Y implements plotter.GridXYZ.
func (g *grid) Y(r int) float64 { return float64(r) }

// Picture draws the rows and the warm replicas of each expert of a layer over time.
func (r *Result) Picture(layer int, title string) ([]byte, error) {
	if len(r.Frames) < 2 || layer < 0 || layer >= r.Shape.Layers {
		return nil, fmt.Errorf("there is nothing to draw of layer %d: %d frames of %d layers", layer, len(r.Frames), r.Shape.Layers)
	}
	rows, replicas := r.grids(layer)
	c := vgsvg.New(pictureWidth, pictureHeight)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Centimeter / 2}
	for i, part := range []struct {
		grid  *grid
		title string
	}{{rows, title + ": rows a second of each expert (dark: many)"}, {replicas, "warm replicas of each expert (white 0, then 1, 2, …)"}} {
		heat(part.grid, part.title).Draw(tiles.At(draw.New(c), 0, i))
	}
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("drawing layer %d: %w", layer, err)
	}
	return out.Bytes(), nil
}

func heat(g *grid, title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", "expert"
	p.Add(plotter.NewHeatMap(g, whiteFirst{}))
	return p
}

// whiteFirst is a palette from white to dark.
type whiteFirst struct{}

// Colors implements palette.Palette.
func (whiteFirst) Colors() []color.Color {
	all := make([]color.Color, shades)
	for i := range all {
		at := uint8(255 * i / (shades - 1))
		all[i] = color.RGBA{255 - at, 255 - at*7/10, 255 - at*4/10, 255}
	}
	return all
}

var _ palette.Palette = whiteFirst{}

// grids put frames together to as many columns as a picture has.
func (r *Result) grids(layer int) (rows, replicas *grid) {
	width := max(r.Frames[len(r.Frames)-1].At/columns, time.Millisecond)
	first := layer * r.Shape.Experts
	rows, replicas = &grid{}, &grid{}
	count := 0
	for i := range r.Frames {
		f := &r.Frames[i]
		if at := float64(f.At/width) * width.Seconds(); len(rows.times) == 0 || at > rows.times[len(rows.times)-1] {
			rows.add(at, r.Shape.Experts)
			replicas.add(at, r.Shape.Experts)
			count = 0
		}
		count++
		for e := range r.Shape.Experts {
			rows.last()[e] += float64(f.Rows[first+e]) / width.Seconds()
			replicas.last()[e] += (float64(f.Warm[first+e]) - replicas.last()[e]) / float64(count)
		}
	}
	return rows, replicas
}

func (g *grid) add(at float64, experts int) {
	g.times, g.values = append(g.times, at), append(g.values, make([]float64, experts))
}

func (g *grid) last() []float64 { return g.values[len(g.values)-1] }

// Liveliest is the layer whose experts' replicas changed most.
func (r *Result) Liveliest() (layer int) {
	moves := make([]int, r.Shape.Layers)
	for _, c := range r.Changes {
		if at, ok := r.layerIndex[c.Layer]; ok {
			moves[at] += c.More + c.Fewer
		}
	}
	for i, n := range moves {
		if n > moves[layer] {
			layer = i
		}
	}
	return layer
}
