package cpu

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// Rows that are brought near make the matrices that those in place do, wherever parts are cut; what does not lie together, or
// would leave a core's cache, stays in place.
func TestNear(t *testing.T) {
	const k = 96
	for _, n := range []int{1, 32, 100, 160} {
		src, w := randomBytes(9, 2*n*k, 256), floats(4, n*k)
		q8, q4 := fileGroups(t, w, k, Q8), fileGroups(t, w, k, Q4)
		halves := func(g Groups, f Format) []Groups {
			cc, sc := GroupBytes(k, f)
			return []Groups{{g.Codes[:n/2*cc], g.Scales[:n/2*sc]}, {g.Codes[n/2*cc:], g.Scales[n/2*sc:]}}
		}
		groups := func(p Packer, f Format, g []Groups) *Matrix {
			m, err := p.Groups(k, f, g...)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		for name, pack := range map[string]func(p Packer) *Matrix{
			"bf16":  func(p Packer) *Matrix { return p.BF16(k, src[:2*k*(n/2)], src[2*k*(n/2):]) },
			"pairs": func(p Packer) *Matrix { return p.Pairs(k, src) },
			"f32":   func(p Packer) *Matrix { return p.F32(w, n, k) },
			"q8":    func(p Packer) *Matrix { return groups(p, Q8, halves(q8, Q8)) },
			"w8a8":  func(p Packer) *Matrix { return groups(p, W8A8, halves(q8, Q8)) },
			"q4":    func(p Packer) *Matrix { return groups(p, Q4, []Groups{q4}) },
			"w4a8":  func(p Packer) *Matrix { return groups(p, W4A8, halves(q4, Q4)) },
			"mxfp4": func(p Packer) *Matrix { return p.MXFP4(src[:n*k/2], src[:n*k/MXBlock], n, k) },
		} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				var brought atomic.Int64
				near := func(buffer, rows []byte) []byte {
					if len(buffer) != len(rows) {
						t.Errorf("room of %d bytes for %d", len(buffer), len(rows))
					}
					brought.Add(int64(len(rows)))
					copy(buffer, rows)
					return buffer
				}
				want, got := pack(Packer{}), pack(Packer{Near: near, Run: sideBySide})
				if !bytes.Equal(asBytes(want.bf), asBytes(got.bf)) || !bytes.Equal(asBytes(want.f32), asBytes(got.f32)) || !bytes.Equal(want.codes, got.codes) ||
					!slices.Equal(want.steps, got.steps) || !bytes.Equal(want.exps, got.exps) {
					t.Error("differs from what is packed in place")
				}
				if brought.Load() == 0 && n > PanelWidth {
					t.Error("nothing was brought near")
				}
			})
		}
	}
	wide := Packer{Near: func(_, rows []byte) []byte { t.Errorf("%d bytes are brought near", len(rows)); return rows }}
	wide.BF16(mostNear/64+1, make([]byte, 64*(mostNear/64+1)))
	if !Nears(mostNear/PanelWidth) || Nears(2*(mostNear/64+1)) {
		t.Error("Nears says another thing than what is brought near")
	}
}
