package top

import (
	"strings"
	"unicode/utf8"
)

// table is columns of text. The first one stays where it is when a reader looks further
// to the right.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// gap parts two columns.
const gap = "  "

// lines draws the table from a column on, as wide as that may be; 0 is as wide as it is. A
// column that does not fit in whole is left out, unless it is the first one or the last of
// all, which are cut. more says that something is left out at the right.
func (t *table) lines(from, width int) (out []string, more bool) {
	wide := t.widths()
	show, more := t.columns(wide, from, width)
	for _, row := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		for i, c := range show {
			if i > 0 {
				b.WriteString(gap)
			}
			cell := ""
			if c < len(row) {
				cell = row[c]
			}
			b.WriteString(cell + strings.Repeat(" ", max(0, wide[c]-utf8.RuneCountInString(cell))))
		}
		out = append(out, cut(strings.TrimRight(b.String(), " "), width))
	}
	return out, more
}

func (t *table) widths() []int {
	wide := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for c := range min(len(row), len(wide)) {
			wide[c] = max(wide[c], utf8.RuneCountInString(row[c]))
		}
	}
	return wide
}

// leastCut is how much must be seen of a last column that is cut.
const leastCut = 12

// columns chooses those that are shown.
func (t *table) columns(wide []int, from, width int) (show []int, more bool) {
	used := 0
	for c := range wide {
		if c > 0 && c <= from {
			continue
		}
		need := wide[c]
		if len(show) > 0 {
			need += len(gap)
		}
		last := c == len(wide)-1
		switch {
		case width == 0 || used+need <= width || len(show) == 0:
		case last && width-used-len(gap) >= leastCut:
			return append(show, c), true
		default:
			return show, true
		}
		show, used = append(show, c), used+need
	}
	return show, false
}

// cut shortens a line to so many characters; 0 is as many as it has.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:width-1]) + "…"
}

// wrap puts parts onto lines of so many characters; 0 is one line.
func wrap(parts []string, width int) (lines []string) {
	line := ""
	for _, part := range parts {
		switch {
		case line == "":
			line = part
		case width == 0 || utf8.RuneCountInString(line+gap+part) <= width:
			line += gap + part
		default:
			lines, line = append(lines, line), part
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}
