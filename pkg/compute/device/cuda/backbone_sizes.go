package cuda

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// sizes are what buffers of a lane are made for.
type sizes struct {
	rows, positions      int
	parts, hidden, vocab int
	qkv, attn, width     int           // most features of any layer's QKV, attention, and network
	perSplit             int           // floats of a row's split, most of any layer
	share                int           // most query heads of a KV head
	heads                int           // of latent attention; 0: there is none
	line, rank, perHead  int           // of it: features of a line, of its value, and of a head's planes
	sights               []model.Sight // of the layers, each once, as kvcache groups them
	turns                []int         // floats of cosines of each rotary embedding
	temperatures         []model.TemperatureSpec
	partFloats           int // of splits that are computed at a time
	logits               int // rows of logits at a time
}

// splitPositions is how many positions a split has, tileRows from how many rows of a
// sequence on tiles are faster than splits.
const (
	splitPositions = 256
	tileRows       = 16
)

// Floats of splits, and of logits, of a lane: enough for a batch of decode rows.
const (
	leastParts = 4 << 20
	mostLogits = 4 << 20
)

func sizesOf(m *model.Spec, s BackboneSettings) sizes {
	z := sizes{rows: s.Rows, positions: s.Positions, parts: s.Parts, hidden: m.Hidden, vocab: m.Vocab, temperatures: temperaturesOf(m)}
	if m.EncoderLayers > 0 { // what an encoder reads is not cut
		z.rows = max(z.rows, z.positions)
	}
	for _, l := range kvcache.ShapeOf(m).Layers {
		if !slices.Contains(z.sights, l.Sight) {
			z.sights = append(z.sights, l.Sight)
		}
	}
	for l := range m.Layer {
		spec := &m.Layer[l]
		x := &spec.Mixer
		if x.Kind == model.MLA {
			z.latent(x)
		} else {
			z.qkv, z.attn = max(z.qkv, (x.Heads+2*x.KVHeads)*x.HeadDim), max(z.attn, x.Heads*x.HeadDim)
			z.perSplit, z.share = max(z.perSplit, x.Heads*(paddedHead(x.HeadDim)+2)), max(z.share, x.Heads/x.KVHeads)
		}
		z.width = max(z.width, spec.Dense.Width, spec.Shared.Width)
	}
	for _, r := range turnsOf(m) {
		z.turns = append(z.turns, r.Dim/2)
	}
	z.partFloats = max(leastParts, z.perSplit*ceil(s.Positions, splitPositions))
	z.logits = min(max(1, mostLogits/m.Vocab), z.rows)
	return z
}

// latent does it for latent attention, of which all layers have the same heads.
func (z *sizes) latent(x *model.MixerSpec) {
	z.qkv, z.attn = max(z.qkv, x.Heads*x.HeadDim), max(z.attn, x.Heads*x.ValueDim, x.Latent.QRank)
	z.perSplit, z.heads = max(z.perSplit, x.Heads*(latentRank(x.Latent.KVRank)+2)), x.Heads
	z.line, z.rank = max(z.line, x.Latent.KVRank+x.Latent.RopeDim), max(z.rank, x.Latent.KVRank)
	z.perHead = max(z.perHead, padded(x.HeadDim), padded(x.Latent.KVRank))
}

// tileQueries is how many queries of one KV head a tile of attention has at most. The
// kernels of wide heads and of latents take any number.
const tileQueries = 64

// tileRows returns how many rows a tile of attention has at most; 0: there are no tiles, since
// too many query heads share a KV head.
func (z *sizes) tileRows() int { return tileQueries / max(1, z.share) }

// stepTables are where a step's tables and rows lie in what goes over, in bytes. Addresses
// are multiples of 16.
type stepTables struct {
	x, tiles, spans, position, angle int
	end, source                      int   // behind what a row sees of its own, and of what an encoder reads
	start, pagesAt                   []int // of each sight
	cos, sin                         []int // of each rotary embedding
	temperature                      []int
	heads, headTiles                 int
	pages                            int // last: where others lie does not depend on how many there are
	bytes                            int
}

// place lays out tables for so many rows, and pages of all sights.
func (t *stepTables) place(z *sizes, rows, pages int) {
	t.bytes = 0
	next := func(bytes int) int {
		at := t.bytes
		t.bytes += (bytes + 15) / 16 * 16
		return at
	}
	t.x, t.tiles, t.spans = next(4*rows*z.hidden), next(16*rows), next(16*rows)
	t.end, t.source, t.position, t.angle = next(4*rows), next(4*rows), next(4*rows), next(4*rows)
	t.start, t.pagesAt = t.start[:0], t.pagesAt[:0]
	for range z.sights {
		t.start, t.pagesAt = append(t.start, next(4*rows)), append(t.pagesAt, next(4*rows))
	}
	t.cos, t.sin, t.temperature = t.cos[:0], t.sin[:0], t.temperature[:0]
	for _, n := range z.turns {
		t.cos, t.sin = append(t.cos, next(4*rows*n)), append(t.sin, next(4*rows*n))
	}
	for range z.temperatures {
		t.temperature = append(t.temperature, next(4*rows))
	}
	t.heads, t.headTiles = next(4*rows*z.heads), next(16*z.heads*ceil(rows, cuts[0].tile))
	t.pages = next(8 * pages)
}

// mostPages returns how many addresses a step has at most: of each sight no more than there
// are pages of such memory, where sequences keep all of theirs; and Backbone.scratch.
func (z *sizes) mostPages(memory, page int64) int {
	most := 1
	for _, s := range z.sights {
		of := z.rows * kvcache.PagesFor(z.positions)
		if s.Most() == 0 {
			of = min(of, int(memory/page))
		}
		most += of
	}
	return most
}
