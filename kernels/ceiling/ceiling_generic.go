package ceiling

import "encoding/binary"

// sink keeps the loops from being optimised away.
var sink [fmaPerTurn]float32

func fmaGeneric(turns int) (width int) {
	acc := sink
	for range turns {
		for i := range acc {
			acc[i] = float32(acc[i]*0.5) + 1
		}
	}
	sink = acc
	return 1
}

func readGeneric(b []byte) {
	var sums [8]uint64
	for ; len(b) >= 64; b = b[64:] {
		for i := range sums {
			sums[i] += binary.LittleEndian.Uint64(b[8*i:])
		}
	}
	for _, s := range sums {
		if s == 1 {
			sink[0]++
		}
	}
}
