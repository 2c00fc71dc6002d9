package cpu

import "unsafe"

// tilesEmulated has plain Go stand in for the kernels of tiles. Tests set it where the processor has no AMX.
var tilesEmulated bool

// tilesKernel is one of the kernels of tiles.
type tilesKernel int

const (
	pairsMany tilesKernel = iota
	pairsTall
	pairsWide
	pairsOne
)

func (a *tilesArgs) call(k tilesKernel) {
	if tilesEmulated {
		a.emulate(k)
		return
	}
	b := (*byte)(unsafe.Pointer(a))
	switch k {
	case pairsMany:
		amxPairsMany(b)
	case pairsTall:
		amxPairsTall(b)
	case pairsWide:
		amxPairsWide(b)
	case pairsOne:
		amxPairs(b)
	}
}

func (a *tilesArgs) emulate(k tilesKernel) {
	rows := int(a.config[48])
	switch k {
	case pairsMany, pairsTall:
		a.emulatePairs(rows+int(a.config[48+2]), 1)
	case pairsWide:
		a.emulatePairs(rows, 2)
	case pairsOne:
		a.emulatePairs(rows, 1)
	}
}

// at is the value so many bytes behind a pointer.
func at[T any](p unsafe.Pointer, bytes int) *T { return (*T)(unsafe.Add(p, bytes)) }

func (a *tilesArgs) emulatePairs(rows, panels int) {
	for turn := range a.turns {
		for i := range rows * panels * PanelWidth {
			r, p, j := i/(panels*PanelWidth), i/PanelWidth%panels, i%PanelWidth
			x := unsafe.Add(a.x, turn*(a.xStep+a.k*tileBytes)+r/tileRows*a.otherStride+r%tileRows*tileLine)
			w := unsafe.Add(a.w, turn*(a.wStep+a.k*stepBytes)+p*a.otherStride+4*j)
			out := at[float32](a.dst, turn*a.dstStep+r*a.ldDst+4*(p*PanelWidth+j))
			acc := float32(0)
			if a.add != 0 {
				acc = *out
			}
			for s := range a.k {
				acc = addPairs(acc, unsafe.Add(x, s*tileBytes), unsafe.Add(w, s*stepBytes), int(a.config[48+7]))
			}
			*out = acc
		}
	}
}

// addPairs is TDPBF16PS of an output: the products of the pairs' first halves and those of the second ones are summed
// for themselves.
func addPairs(acc float32, x, w unsafe.Pointer, pairs int) float32 {
	var sums [2]float32
	for i := range 2 * pairs {
		sums[i%2] = fmaNormal(widened(*at[uint16](x, 2*i)), widened(*at[uint16](w, i/2*4*PanelWidth+i%2*2)), sums[i%2])
	}
	return normal(normal(acc) + normal(sums[0]+sums[1]))
}
