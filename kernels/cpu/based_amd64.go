package cpu

//go:generate sh -c "cd _asm && GOWORK=off go run . -based -out ../based_amd64.s -stubs ../based_stubs_amd64.go -pkg cpu && sed -Ei 's/([^ ]) +/\\1 /g' ../based_amd64.s"

// The most rows that kernels take which decode with whole numbers.
const (
	basedRowsQ4 = 7
	basedRowsQ8 = 9
)

// basedRaise is how much larger the exponent of a base is than its scale's; _asm/based.go says why that is exact.
const basedRaise = 16

// Bases of all scales that checkScale lets pass are finite, and all these scales are normal numbers: the compiler refuses
// negative ones here. TestQuantiseScales has it that Quantise makes no other scales.
const (
	_ = uint(254 - (mostScale>>7 + basedRaise))
	_ = uint(leastScale>>7 - 1)
)

// partBased computes rows of some of n panels with whole numbers, and returns of how many; 0: others have to. What these
// kernels make has the same bits, but for the sign of an output that is zero where a chain underflows, which a.zeros tells.
func (a *tileArgs) partBased(rows, n int, f Format) int {
	panels := 1
	if rows == 1 && n > 1 {
		panels = 2
	}
	switch {
	case active < avx512vnni || a.add != 0:
		return 0
	case f == Q4 && rows <= basedRowsQ4:
		avx512BasedQ4(rows, panels, a)
	case f == Q8 && rows <= basedRowsQ8:
		avx512BasedQ8(rows, panels, a)
	default:
		return 0
	}
	if a.zeros != 0 {
		return 0
	}
	return panels
}
