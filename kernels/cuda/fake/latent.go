package fake

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// latentAttention are the kernels over latents: a line is key and, with its first
// elements, value for all heads.
func latentAttention() map[string]Kernel {
	all := map[string]Kernel{"attend_merge_w512": attendMerge(512)}
	for parts := 1; parts <= 2; parts++ {
		all[fmt.Sprintf("latent_store_p%d", parts)] = latentStore(parts)
		for _, r := range []int{64, 512} {
			all[fmt.Sprintf("attend_latent_p%d_r%d", parts, r)] = attendLatent(parts, r)
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
		heads, c, w, splits := int(a[7]), int(a[8]), int(a[9]), int(a[11])
		for r := range int(l.Grid[2]) {
			start, end := seen(m, a[2], a[3], r)
			g := paged{m, rowPages(m, a[5], a[4], r), cuda.Ptr(a[6]), parts, w}
			for s := range int(l.Grid[0]) {
				from, to := max(start, s*splitPositions), min(end, (s+1)*splitPositions)
				for h := 0; h < heads && from < to; h++ {
					q := floats(m, a[1]+uint64(4*r)*a[10]+uint64(4*h*c), c)
					of := g.pieceOf(q, 0, from, to, number(a[12]), true)
					to := floats(m, a[0]+uint64(4*((r*heads+h)*splits+s)*(most+2)), most+2)
					copy(to, of[:most])
					copy(to[most:], of[w:])
				}
			}
		}
	}
}
