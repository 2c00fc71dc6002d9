package layer

import "github.com/switchyard/switchyard/pkg/compute/tensor"

// shape is what rows and their slots are.
type shape struct {
	hidden  int // elements of a row
	slots   int // of a row
	experts int // of a layer
	layers  []int
	wire    tensor.Wire
}

// rowsPart is what one Hidden message carries.
type rowsPart struct {
	first, rows int
	arrived     bool
}

// split cuts rows into as few parts as there must be, of at most limit rows, and at cuts.
func split(parts []rowsPart, rows, limit int, cuts []int) []rowsPart {
	from := 0
	for _, cut := range cuts {
		if cut > from && cut < rows {
			parts = evenly(parts, from, cut-from, limit)
			from = cut
		}
	}
	return evenly(parts, from, rows-from, limit)
}

func evenly(parts []rowsPart, from, rows, limit int) []rowsPart {
	n := (rows + limit - 1) / limit
	for i := range n {
		first := i * rows / n
		parts = append(parts, rowsPart{first: from + first, rows: (i+1)*rows/n - first})
	}
	return parts
}
