package cuda

import (
	"unsafe"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// A tile of weights for wgmma has 64 rows of 64 columns. The list of kernels, section "Memory", has
// the layout.
const (
	tileFeatures = 64
	tileRow      = 128 // bytes
	tileBytes    = tileFeatures * tileRow
	chunk        = 16
)

// tiles reads tensors as matrix does, and writes them in tiles.
func (w *way) tiles(m *model.Model, p matrix) {
	var from []rows
	for _, ref := range p.refs {
		t := w.weights(m, ref, p.format)
		if w.err != nil {
			return
		}
		from = append(from, rows{t.Data, t.Shape[0], int(p.format.rowBytes(p.k))})
	}
	eachBand(from, p.rows(), int(p.format.rowBytes(padded(p.k))), w.write)
}

// rows is a tensor's: so many, of so many bytes.
type rows struct {
	data     []byte
	n, bytes int
}

// eachBand makes the tiles beside each other for every 64 of a matrix's rows, which are filled up to so many bytes.
// It reads whole rows, as a processor fetches ahead what follows. Of two tensors, a gate and an up, every 16
// rows are 8 of each.
func eachBand(from []rows, all, filled int, write func([]byte)) {
	band := make([]byte, tileFeatures*filled)
	for first := 0; first < all; first += tileFeatures {
		for r := range tileFeatures {
			of, row := from[0], first+r
			if len(from) == 2 {
				of, row = from[row%16/8], row/16*8+row%8
			}
			putRow(band, r, of.row(row, filled))
		}
		write(band)
	}
}

// row is filled up with zeros, as is one that there is not.
func (x rows) row(i, filled int) []byte {
	var has []byte
	if i < x.n {
		has = x.data[i*x.bytes:][:x.bytes]
	}
	if len(has) < filled {
		has = append(make([]byte, 0, filled), has...)[:filled]
	}
	return has
}

func putRow(band []byte, r int, row []byte) {
	for ; len(row) > 0; band, row = band[tileBytes:], row[tileRow:] {
		to, from := chunksOf(band[r*tileRow:]), chunksOf(row)
		for c := range from {
			to[(c^r)%len(to)] = from[c]
		}
	}
}

func chunksOf(row []byte) *[tileRow / chunk][chunk]byte {
	return (*[tileRow / chunk][chunk]byte)(unsafe.Pointer((*[tileRow]byte)(row)))
}
