package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Keys that a Screen takes, by the names that pkg terminal gives them; others are runes.
const (
	keyUp, keyDown, keyLeft, keyRight = "up", "down", "left", "right"
	keyPageUp, keyPageDown            = "pgup", "pgdn"
	keyHome, keyEnd, keyEnter         = "home", "end", "enter"
)

// Screen is a page of any size: what matters first, then groups that open and close, of
// which as many lines are shown as there is room for. It draws nothing and reads nothing.
//
// A group that nobody has opened or closed is open while there is room for it.
type Screen struct {
	width, height int
	chosen        map[string]bool // open or not, as somebody wanted
	cursor        int             // line of the body that keys mean
	first         int             // line of the body that is shown first
	columns       map[string]int  // of each group's table, which is shown after the first one
	body          []bodyLine      // as drawn last
	room          int             // for it
	wider         map[string]bool // groups whose tables go on at the right
}

type bodyLine struct {
	text  string
	group string // whose title it is; else ""
	of    string // the group that it is in
}

// NewScreen returns a screen without a size.
func NewScreen() *Screen { return &Screen{chosen: map[string]bool{}, columns: map[string]int{}} }

// Line is one line of a page.
type Line struct {
	Text string
	// Loud lines are to be seen first.
	Loud bool
}

// Look draws a snapshot onto a page of a size; before is the one before, for rates of
// layers. trouble is why there is no newer one; nil: there is.
func (v *Screen) Look(s, before *Snapshot, trouble error, width, height int) []Line {
	v.width, v.height = max(width, 1), max(height, 1)
	page := v.head(s, trouble)
	groups := s.groups(before)
	v.room = max(0, v.height-len(page)-1)
	v.body = v.lay(groups)
	v.scroll()
	for _, l := range v.body[v.first:min(len(v.body), v.first+v.room)] {
		page = append(page, Line{Text: l.text})
	}
	for len(page) < v.height-1 {
		page = append(page, Line{})
	}
	if v.height > 1 {
		page = append(page[:v.height-1], Line{Text: v.foot(s)})
	}
	page = page[:v.height]
	for i := range page {
		page[i].Text = cut(page[i].Text, v.width)
	}
	return page
}

// head returns what is always there: the state, what is missing, and figures.
func (v *Screen) head(s *Snapshot, trouble error) (page []Line) {
	clock := s.Time.Format("15:04:05")
	title := cut(s.title(), max(1, v.width-len(clock)-len(gap)))
	title += strings.Repeat(" ", max(1, v.width-utf8.RuneCountInString(title)-len(clock))) + clock
	page = append(page, Line{Text: cut(title, v.width), Loud: !s.Serving})
	if trouble != nil {
		page = append(page, Line{Text: cut("reading failed: "+clean(trouble.Error()), v.width), Loud: true})
	}
	page = append(page, atMost(s.reasons(v.width), max(1, v.height/5))...)
	page = append(page, atMost(wrap(s.figures(), v.width), max(1, v.height/3))...)
	if v.height >= 20 {
		page = append(page, Line{})
	}
	return page
}

func atMost(lines []string, n int) (page []Line) {
	for i, line := range lines {
		if i == n-1 && len(lines) > n {
			line = fmt.Sprintf("… and %d more", len(lines)-i)
		}
		if i < n {
			page = append(page, Line{Text: line})
		}
	}
	return page
}

// title says first whether the model is served.
func (s *Snapshot) title() string {
	if s.Serving {
		return s.Model + gap + "SERVING"
	}
	var names []string
	for _, l := range s.Missing {
		if !slices.Contains(names, l.Stage) {
			names = append(names, l.Stage)
		}
	}
	return s.Model + gap + "NOT SERVING: missing " + strings.Join(names, ", ")
}

func (s *Snapshot) reasons(width int) (lines []string) {
	for _, l := range s.Missing {
		lines = append(lines, cut(gap+l.Stage+": "+l.Why, width))
	}
	return lines
}

// figures returns what operators ask first, the most important ones first.
func (s *Snapshot) figures() []string {
	f := &s.Summary
	ttft := "TTFT " + seconds(f.TTFTSeconds)
	if f.TTFTSeconds != nil && !f.Recent {
		ttft += " since start"
	}
	failed := f.Failed + f.Refused
	parts := []string{
		"tokens/s " + number(f.TokensPerSecond), ttft, "running " + number(&f.Running), "waiting " + number(f.Waiting), "errors " + number(&failed),
		"KV pages " + share(f.KVPagesUsed, f.KVPages), "answer " + seconds(f.AnswerSeconds), "requests " + number(&f.Requests), "tokens " + number(&f.Tokens),
	}
	if b := f.Brownout; b != nil {
		text := fmt.Sprintf("brownout prefill %.3f, decode %.3f", b.Prefill, b.Decode)
		if b.Floored {
			text += ", at its floor"
		}
		parts = append(parts, text)
	}
	if failed > 0 {
		parts = append(parts, "failed "+number(&f.Failed), "refused "+number(&f.Refused))
	}
	if len(s.Others) > 0 {
		parts = append(parts, "also here: "+strings.Join(s.Others, ", "))
	}
	return parts
}

// lay puts the groups under each other.
func (v *Screen) lay(groups []group) (body []bodyLine) {
	v.wider = map[string]bool{}
	room := v.room - len(groups)
	for i, g := range groups {
		open, chosen := v.chosen[g.key]
		if !chosen {
			open = len(g.table.rows) > 0 && len(g.table.rows)+1 <= room
		}
		mark := "▸"
		if open {
			mark = "▾"
			room -= len(g.table.rows) + 1
		}
		body = append(body, bodyLine{text: fmt.Sprintf(" %s %d %s%s%s", mark, i+1, g.title, gap, g.brief), group: g.key, of: g.key})
		if open {
			body = append(body, v.rows(g)...)
		}
	}
	return body
}

// indent is before the lines of a group.
const indent = "     "

func (v *Screen) rows(g group) (body []bodyLine) {
	if len(g.table.rows) == 0 {
		return []bodyLine{{text: indent + "(nothing)", of: g.key}}
	}
	lines, more := g.table.lines(v.columns[g.key], max(1, v.width-len(indent)))
	v.wider[g.key] = more
	for _, line := range lines {
		body = append(body, bodyLine{text: indent + line, of: g.key})
	}
	return body
}

// scroll keeps the cursor in the body, and on the page, and marks it.
func (v *Screen) scroll() {
	v.cursor = max(0, min(v.cursor, len(v.body)-1))
	v.first = min(v.first, v.cursor, max(0, len(v.body)-v.room))
	v.first = max(v.first, v.cursor-v.room+1, 0)
	if v.cursor < len(v.body) {
		text := []rune(v.body[v.cursor].text)
		text[0] = '>'
		v.body[v.cursor].text = string(text)
	}
}

// foot says which keys there are, as many as fit, and which lines are shown.
func (v *Screen) foot(s *Snapshot) string {
	keys := []string{"q quit", "↑↓ move", "⏎ open", "1-" + strconv.Itoa(len(groupKeys)) + " group", "a all"}
	if of := v.under(); v.wider[of] || v.columns[of] > 0 {
		keys = append(keys, "←→ columns")
	}
	if len(s.Others) > 0 {
		keys = append(keys, "Tab model")
	}
	keys = append(keys, "PgUp PgDn")
	where := ""
	if len(v.body) > v.room {
		where = fmt.Sprintf("%d-%d of %d", v.first+1, min(v.first+v.room, len(v.body)), len(v.body))
	}
	line := ""
	if lines := wrap(keys, max(1, v.width-len(where)-len(gap))); len(lines) > 0 {
		line = lines[0]
	}
	return cut(line+strings.Repeat(" ", max(len(gap), v.width-utf8.RuneCountInString(line)-len(where)))+where, v.width)
}

// Press takes a key.
func (v *Screen) Press(key string) {
	switch key {
	case keyUp, "k":
		v.cursor--
	case keyDown, "j":
		v.cursor++
	case keyPageUp:
		v.cursor -= max(1, v.room-1)
	case keyPageDown, " ":
		v.cursor += max(1, v.room-1)
	case keyHome, "g":
		v.cursor = 0
	case keyEnd, "G":
		v.cursor = len(v.body) - 1
	case keyLeft, "h":
		v.columns[v.under()] = max(0, v.columns[v.under()]-1)
	case keyRight, "l":
		if of := v.under(); v.wider[of] {
			v.columns[of]++
		}
	case keyEnter:
		v.toggle(v.under())
	case "a":
		v.toggleAll()
	default:
		if n, err := strconv.Atoi(key); err == nil && n >= 1 && n <= len(groupKeys) {
			v.toggle(groupKeys[n-1])
		}
	}
	v.cursor = max(0, min(v.cursor, len(v.body)-1))
}

// under returns the group that the cursor is in; "" before anything was drawn.
func (v *Screen) under() string {
	if v.cursor < len(v.body) {
		return v.body[v.cursor].of
	}
	return ""
}

// toggle opens or closes a group, and moves the cursor to its title, which comes first on the page
// if the group is opened.
func (v *Screen) toggle(key string) {
	if key == "" {
		return
	}
	open := v.isOpen(key)
	v.chosen[key] = !open
	at := slices.IndexFunc(v.body, func(l bodyLine) bool { return l.group == key })
	if at < 0 {
		return
	}
	if v.cursor = at; !open {
		v.first = at // as much of it is shown as there is room for
	}
}

// isOpen reports whether a group has lines in the body beside its title.
func (v *Screen) isOpen(key string) bool {
	return slices.ContainsFunc(v.body, func(l bodyLine) bool { return l.of == key && l.group == "" })
}

func (v *Screen) toggleAll() {
	closed := slices.ContainsFunc(groupKeys, func(key string) bool { return !v.isOpen(key) })
	for _, key := range groupKeys {
		v.chosen[key] = closed
	}
	v.cursor = 0
}

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
