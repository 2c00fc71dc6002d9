package cuda

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// A tile of weights for wgmma has 64 rows of 64 columns. The list of kernels, section "Memory", has
// the layout.
const (
	tileFeatures = 64
	tileRow      = 128 // bytes
	tileBytes    = tileFeatures * tileRow
	chunk        = 16
	// stripTiles beside each other are made at a time, so that rows are read in longer pieces.
	stripTiles = 8
	stripRow   = stripTiles * tileRow
)

// tiles reads tensors as matrix does, and writes them in tiles.
func (w *way) tiles(ctx context.Context, m *model.Model, p matrix) error {
	var from []rows
	for _, ref := range p.refs {
		t, err := weights(m, ref, p.format)
		if err != nil {
			return err
		}
		from = append(from, rows{t.Data, t.Shape[0], int(p.format.rowBytes(p.k))})
	}
	return eachStrip(from, p.rows(), func(strip []byte) error { return w.write(ctx, strip) })
}

// rows is a tensor's: so many, of so many bytes.
type rows struct {
	data     []byte
	n, bytes int
}

// eachStrip makes all tiles of a matrix with so many rows, in their order. Of two tensors, a gate and an up,
// every 16 rows are 8 of each.
func eachStrip(from []rows, all int, write func([]byte) error) error {
	strip := make([]byte, stripTiles*tileBytes)
	for first := 0; first < all; first += tileFeatures {
		for column := 0; column < from[0].bytes; column += stripRow {
			width := min(stripRow, 2*padded(from[0].bytes/2)-column)
			for r := range tileFeatures {
				of, row := from[0], first+r
				if len(from) == 2 {
					of, row = from[row%16/8], row/16*8+row%8
				}
				putRow(strip, r, of.piece(row, column, width))
			}
			if err := write(strip[:width*tileFeatures]); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece is so many bytes of a row from one on. What it does not have is zero.
func (x rows) piece(row, column, width int) []byte {
	var has []byte
	if row < x.n {
		has = x.data[row*x.bytes+column : row*x.bytes+min(column+width, x.bytes)]
	}
	if len(has) < width {
		has = append(make([]byte, 0, width), has...)[:width]
	}
	return has
}

// putRow writes row r of tiles beside each other.
func putRow(strip []byte, r int, row []byte) {
	for ; len(row) > 0; strip, row = strip[tileBytes:], row[tileRow:] {
		to, from := (*[tileRow]byte)(strip[r*tileRow:]), (*[tileRow]byte)(row)
		for c := range tileRow / chunk {
			at := c ^ r%8
			*(*[chunk]byte)(to[at*chunk:]) = *(*[chunk]byte)(from[c*chunk:])
		}
	}
}
