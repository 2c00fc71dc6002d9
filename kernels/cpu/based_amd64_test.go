package cpu

import (
	"runtime"
	"testing"
)

// What pads a panel, and rows and weights of zeros, make no other kernel compute a tile again, whatever underflowed
// before; an output that underflows to zero does.
func TestPartBased(t *testing.T) {
	restore, err := Use("avx512vnni")
	if err != nil {
		t.Skip(err)
	}
	defer restore()
	runtime.LockOSThread() // what has underflowed is a thread's
	defer runtime.UnlockOSThread()
	for f, zero := range zeroCodes {
		taken := func(n int, x, scale float32) int {
			m, err := Packer{}.Groups(QGroup, f, groupsOf(n, QGroup, f, zero+1, zero, func(int, int) float32 { return scale }))
			if err != nil {
				t.Fatal(err)
			}
			var dst [PanelWidth]float32
			row := filledWith(x, QGroup)
			a := tileArgs{dst: pointerTo(dst[:]), x: pointerTo(row), w: pointerTo(m.codes), scales: pointerTo(m.steps), k: QGroup}
			return a.partBased(1, 1, f)
		}
		for range 2 {
			for name, got := range map[string]int{
				"padding": taken(PanelWidth-1, 1, -1), "a row of zeros": taken(PanelWidth, 0, -1), "weights of zero": taken(PanelWidth, 1, 0),
			} {
				if got != 1 {
					t.Errorf("format %d, %s: %d panels", f, name, got)
				}
			}
			if taken(PanelWidth, 0x1p-80, -0x1p-75) != 0 {
				t.Errorf("format %d: an underflow goes unseen", f)
			}
		}
	}
}
