package cpu

import "sync"

// stacked are the rows, of so many bytes each, of matrices that lie one below the other.
type stacked struct {
	size  int
	parts [][]byte
	n     int // rows of all
}

func stack(size int, parts ...[]byte) stacked {
	s := stacked{size: size, parts: parts}
	for _, part := range parts {
		s.n += len(part) / max(1, size)
	}
	if size == 0 {
		s.n = 0
	}
	return s
}

// sheet is what packing a panel reads: a slice for each row, and room for what is brought near.
type sheet struct {
	rows [PanelWidth][]byte
	room []byte
}

var sheets = sync.Pool{New: func() any { return new(sheet) }}

// mostNear is the most bytes of a panel that are brought near: what stays in a core's cache.
const mostNear = 512 << 10

// Nears reports whether Packer.Near is asked for panels of rows of so many bytes; those of longer rows are read in place.
func Nears(row int) bool { return row*PanelWidth <= mostNear }

// panel calls f with the rows of a panel, of which the last one may lack some.
func (p Packer) panel(of stacked, panel int, f func(rows [][]byte)) {
	s, _ := sheets.Get().(*sheet)
	f(s.take(of, panel, p.Near))
	clear(s.rows[:])
	sheets.Put(s)
}

func (s *sheet) take(of stacked, panel int, near func(buffer, rows []byte) []byte) [][]byte {
	first := panel * PanelWidth
	count := min(PanelWidth, of.n-first)
	rows := s.rows[:0]
	for _, part := range of.parts {
		n := len(part) / of.size
		if first >= n {
			first -= n
			continue
		}
		here := min(n-first, count-len(rows))
		lines := part[first*of.size:][:here*of.size]
		if near != nil && here == count && Nears(of.size) {
			lines = near(s.roomFor(len(lines)), lines)
		}
		for ; len(lines) > 0; lines = lines[of.size:] {
			rows = append(rows, lines[:of.size])
		}
		if first = 0; len(rows) == count {
			break
		}
	}
	return rows
}

func (s *sheet) roomFor(bytes int) []byte {
	if cap(s.room) < bytes {
		s.room = make([]byte, bytes)
	}
	return s.room[:bytes]
}
