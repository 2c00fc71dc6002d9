package model

import "encoding/binary"

// pick returns a part of the rows of data: a view where they lie together.
func pick(data []byte, p Part, rows int) []byte {
	if p.Count <= 1 || rows == 0 {
		return data
	}
	size := len(data) / (rows * p.Count)
	if !p.Interleaved {
		return data[p.Index*rows*size:][:rows*size]
	}
	out := make([]byte, 0, rows*size)
	for row := range rows {
		out = append(out, data[(row*p.Count+p.Index)*size:][:size]...)
	}
	return out
}

// unpair puts the rows of each head in order, of which row 2i+j is stored where row i of
// half j belongs.
func unpair(data []byte, rows, heads int) []byte {
	size, half := len(data)/max(1, rows), rows/max(1, heads)/2
	out := make([]byte, 0, len(data))
	for head := range heads {
		for j := range 2 {
			for i := range half {
				out = append(out, data[(2*(head*half+i)+j)*size:][:size]...)
			}
		}
	}
	return out
}

// transpose returns a part of the columns of data as rows (n, k), of elements of size bytes.
func transpose(data []byte, p Part, n, k, size int) []byte {
	count := max(1, p.Count)
	from, step, columns := p.Index*n, 1, n*count
	if p.Interleaved {
		from, step = p.Index, count
	}
	out := make([]byte, n*k*size)
	for row := 0; row < n; row += tileSide {
		for col := 0; col < k; col += tileSide {
			t := tile{row, min(row+tileSide, n), col, min(col+tileSide, k)}
			t.transpose(out, data[(from+row*step)*size:], k, columns, step, size)
		}
	}
	return out
}

// tile is the rows [row, rowEnd) and columns [col, colEnd) of a matrix.
type tile struct{ row, rowEnd, col, colEnd int }

// tileSide keeps both sides of a tile in the L1 cache.
const tileSide = 64

// transpose fills a tile of out (…, k); data begins at its first row's column,
// of columns in all, and the next row's is step further.
func (t tile) transpose(out, data []byte, k, columns, step, size int) {
	for col := t.col; col < t.colEnd; col++ {
		from, to := col*columns*size, (t.row*k+col)*size
		for range t.rowEnd - t.row {
			if size == 2 {
				binary.LittleEndian.PutUint16(out[to:], binary.LittleEndian.Uint16(data[from:]))
			} else {
				copy(out[to:to+size], data[from:])
			}
			from, to = from+step*size, to+k*size
		}
	}
}
