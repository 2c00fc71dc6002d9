package cpu

// ToBF16 rounds src to little-endian bf16, ties to even; a NaN stays a NaN.
func ToBF16(dst []byte, src []float32) {
	mustMatch("ToBF16", 2*len(src), len(dst))
	n := whole(len(src))
	toBF16(dst[:2*n], src[:n])
	toBF16Generic(dst[2*n:], src[n:])
}

// FromBF16 widens len(dst) little-endian bf16 values; it is exact.
func FromBF16(dst []float32, src []byte) {
	mustMatch("FromBF16", 2*len(dst), len(src))
	n := whole(len(dst))
	fromBF16(dst[:n], src[:2*n])
	fromBF16Generic(dst[n:], src[2*n:])
}

// RoundBF16 rounds x in place to what ToBF16 and FromBF16 make of it.
func RoundBF16(x []float32) {
	var block [512]byte // large, so that no load waits for a store just made
	for len(x) > 0 {
		n := min(len(x), len(block)/2)
		ToBF16(block[:2*n], x[:n])
		FromBF16(x[:n], block[:2*n])
		x = x[n:]
	}
}
