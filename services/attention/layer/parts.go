package layer

import "github.com/switchyard/switchyard/pkg/compute/tensor"

// shape is what rows and their slots are.
type shape struct {
	hidden int // elements of a row
	slots  int // of a row
	layers []int
	wire   tensor.Wire
}

// rowsPart is what one Hidden message carries.
type rowsPart struct {
	first, rows int
	arrived     bool
}

// split cuts rows into as few parts as there must be, of at most limit rows.
func split(parts []rowsPart, rows, limit int) []rowsPart {
	n := (rows + limit - 1) / limit
	for i := range n {
		first := i * rows / n
		parts = append(parts, rowsPart{first: first, rows: (i+1)*rows/n - first})
	}
	return parts
}
