package kvcache

import (
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Shape says how much a position needs, layer by layer.
type Shape struct {
	Layers []LayerShape
	// Rows is the most positions of a sequence that a step computes; 0: any number.
	// All of them are kept until the step is done.
	Rows int
}

// LayerShape is what a layer keeps of a position: a key and a value for each
// head, or a latent, which is one key without a value. Sight says for how long.
type LayerShape struct {
	Heads, KeyDim, ValueDim int
	Sight                   model.Sight
	Format                  cpu.KVFormat
	// Block is the bytes of a page that a device takes for it; 0: as the format says.
	Block int64
}

// ShapeOf returns what a model's layers keep.
func ShapeOf(s *model.Spec) Shape {
	shape, _ := layout(s)
	return shape
}

// Places says which layer of the shape is whose: layer l's own in Self[l], that of its
// cross attention in Cross[l].
type Places struct{ Self, Cross []int }

// PlacesOf returns those of a model's layers.
func PlacesOf(s *model.Spec) Places {
	_, in := layout(s)
	return in
}

// layout gives an encoder's layers one place together: their rows come all at
// once, so that nobody needs a layer's keys and values after it.
func layout(s *model.Spec) (shape Shape, in Places) {
	add := func(l int) int {
		shape.Layers = append(shape.Layers, layerOf(&s.Layer[l].Mixer))
		return len(shape.Layers) - 1
	}
	in = Places{make([]int, len(s.Layer)), make([]int, len(s.Layer))}
	for l := range s.Layer {
		if l == 0 || l >= s.EncoderLayers {
			in.Self[l] = add(l)
		}
		if s.Layer[l].Cross {
			in.Cross[l] = add(l)
		}
	}
	return shape, in
}

func layerOf(m *model.MixerSpec) LayerShape {
	if m.Kind == model.MLA {
		return Latent(m.Latent.KVRank, m.Latent.RopeDim, m.Cache)
	}
	return LayerShape{Heads: m.KVHeads, KeyDim: m.HeadDim, ValueDim: m.ValueDim, Sight: m.Sight, Format: m.Cache}
}

// Latent returns the shape of a layer that keeps latents of a rank, each with a rotated part.
func Latent(rank, rope int, f cpu.KVFormat) LayerShape {
	return LayerShape{Heads: 1, KeyDim: rank, ValueDim: rope, Format: f}
}

// head returns the number of floats of one page's keys and values of one head.
func (l *LayerShape) head() int { return l.keys() + l.Format.Words(l.ValueDim) }

// keys returns the number of floats of one page's keys of one head.
func (l *LayerShape) keys() int { return l.Format.Words(l.KeyDim) }

// floats returns what a layer takes in a page.
func (l *LayerShape) floats() int {
	if l.Block > 0 {
		return int(l.Block / 4)
	}
	return l.Heads * l.head()
}

// PageBytes returns the memory of PagePositions positions in all layers.
func (s Shape) PageBytes() int64 {
	n := int64(0)
	for _, l := range s.Layers {
		n += 4 * int64(l.floats())
	}
	return n
}

// PagesFor returns the number of pages that hold this many positions.
func PagesFor(positions int) int {
	return (positions + cpu.PagePositions - 1) / cpu.PagePositions
}

// Need returns the memory of a sequence of at most this many positions, in units of
// PageBytes.
func (s Shape) Need(positions int) int {
	groups, _ := s.groups()
	return need(groups, positions, s.Rows)
}

func need(groups []group, positions, rows int) int {
	bytes, unit := int64(0), int64(0)
	for i := range groups {
		bytes += int64(groups[i].most(positions, rows)) * groups[i].bytes()
		unit += groups[i].bytes()
	}
	return int((bytes + unit - 1) / unit)
}

// group is the layers that see equally far: they have their pages together.
type group struct {
	sight  model.Sight
	floats int // of a page
}

func (g *group) bytes() int64 { return 4 * int64(g.floats) }

// most returns how many pages a sequence holds at a time at most.
func (g *group) most(positions, rows int) int {
	all := PagesFor(positions)
	seen := g.sight.Most()
	if seen == 0 || rows == 0 {
		return all
	}
	span := seen - 1 + rows // from what the first row of a step sees to its last row
	return min(all, (span+cpu.PagePositions-2)/cpu.PagePositions+1)
}

// place is where a layer lies in the pages of its group.
type place struct{ group, from, to int }

// groups puts the layers into groups, in the order of each one's first layer.
func (s Shape) groups() (groups []group, places []place) {
	for _, l := range s.Layers {
		i := slices.IndexFunc(groups, func(g group) bool { return g.sight == l.Sight })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{sight: l.Sight})
		}
		g := &groups[i]
		places = append(places, place{i, g.floats, g.floats + l.floats()})
		g.floats += l.floats()
	}
	return groups, places
}
