package fake

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// latentAttention returns the kernels over latents: a line is key and, with its first
// elements, value for all heads.
func latentAttention() map[string]Kernel {
	all := map[string]Kernel{"attend_merge_w512": attendMerge(512)}
	for parts := 1; parts <= 2; parts++ {
		all[fmt.Sprintf("latent_store_p%d", parts)] = latentStore(parts)
		for _, r := range []int{64, 512} {
			all[fmt.Sprintf("attend_latent_p%d_r%d", parts, r)] = attendLatent(parts, r)
			all[fmt.Sprintf("attend_latent_tile_p%d_r%d", parts, r)] = attendLatentTile(parts, r)
		}
	}
	return all
}

func latentStore(parts int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		c, w := int(a[6]), int(a[7])
		for r := range int(l.Grid[0]) {
			at := int(View[uint32](m, cuda.Ptr(a[1]), r+1)[r])
			g := paged{m, rowPages(m, a[3], a[2], r), cuda.Ptr(a[4]), parts, w}
			for part := range parts {
				putPart(g.line(at, 0, part, false), floats(m, a[0]+uint64(4*r)*a[5], c), part)
			}
		}
	}
}

func attendLatent(parts, most int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		k := attending{
			args: a, layerAt: a[6], parts: parts, w: int(a[9]), heads: int(a[7]), share: int(a[7]), c: int(a[8]), kept: most,
			latent: true, ldq: a[10], scale: number(a[12]),
		}
		k.inSplits(m, l, a[11])
	}
}

// attendLatentTile has blocks of 32 queries of a tile.
func attendLatentTile(parts, most int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		k := attending{
			args: a, layerAt: a[7], parts: parts, w: int(a[10]), heads: int(a[8]), share: int(a[8]), c: int(a[9]), kept: most,
			latent: true, ldq: a[12], scale: number(a[14]),
		}
		k.inTiles(m, l.Grid[1], 32*int(l.Grid[0])/k.heads, int(a[11]), a[13], 0)
	}
}
