package cpu

// Rows for AMX lie in tiles of 16: of bf16 one after the other for each step of 32 inputs, which is what TDPBF16PS multiplies at once.
const (
	tileRows  = 16
	tileLine  = 64 // bytes of a tile's row
	tileBytes = tileRows * tileLine
	stepPairs = tileLine / 4
)

func stepsOf(pairs int) int { return parts(pairs, stepPairs) }

func (r *Rounded) placePairs(row int, x []float32) {
	const some = 512 // inputs
	var rounded [2 * some]byte
	to := r.pairsAt(row)
	for ; len(x) > 0; x = x[min(some, len(x)):] {
		part := x[:min(some, len(x))]
		pairRow(rounded[:], part)
		size := 4 * pairsOf(len(part))
		placeLines(to, rounded[:size])
		to = to[min(len(to), some*2/tileLine*tileBytes):]
	}
}

// pairsAt returns the tiles from a row on.
func (r *Rounded) pairsAt(row int) []byte {
	return r.codes[row/tileRows*stepsOf(pairsOf(r.k))*tileBytes+row%tileRows*tileLine:]
}

// placeLinesGeneric copies a row to where its lines are.
func placeLinesGeneric(to, row []byte) {
	for ; len(row) > 0; row = row[min(tileLine, len(row)):] {
		copy(to[:tileLine], row)
		to = to[min(len(to), tileBytes):]
	}
}
