package fields

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// MostValues bounds the fields and the elements of a body's lists together, but for numbers in lists.
	MostValues = 1 << 16
	// MostName bounds the bytes of a field's name.
	MostName = 1 << 10
	// MostDepth bounds how deep values are nested.
	MostDepth = 200
	// What reading takes of memory at most, about: for each byte, value, and number in a list.
	perByte, perValue, perNumber = 4, 384, 32
)

// Excess says which field of a body has more than it may.
type Excess struct {
	Path string // empty: the body as a whole
	Why  string
}

// Error implements error.
func (e *Excess) Error() string { return e.Why }

// measure walks a body once. Nothing is copied of it, whatever it has.
type measure struct {
	body            []byte
	at              int
	values, numbers int
	open            []level
}

// level is an object or a list that is open.
type level struct {
	node            *node
	next            *node // of the value that comes
	begin           int   // in the body
	list            bool
	named           bool // the name of the value that comes was read
	values, numbers int
}

// node is a place in bodies of a route.
type node struct {
	field *Field // nil: nothing is said of it
	below map[string]*node
}

// step is the place of a field; nil: nothing is said of it.
func (n *node) step(name []byte) *node {
	if found := n.below[string(name)]; found != nil {
		return found
	}
	return n.below[anyField]
}

const elements, anyField = "[]", "*"

// plant gives a bound its place.
func (n *node) plant(f Field) {
	for _, name := range strings.Split(strings.ReplaceAll(f.Path, elements, "."+elements), ".") {
		if n.below == nil {
			n.below = map[string]*node{}
		}
		if n.below[name] == nil {
			n.below[name] = &node{}
		}
		n = n.below[name]
	}
	if n.field != nil {
		f.Bound = f.wider(n.field.Bound)
	}
	n.field = &f
}

// planted are all bounds, by their paths.
func (n *node) planted(all []Field) []Field {
	if n.field != nil {
		all = append(all, *n.field)
	}
	for _, name := range slices.Sorted(maps.Keys(n.below)) {
		all = n.below[name].planted(all)
	}
	return all
}

// Measure returns about how many bytes reading a body takes beside it, or an *Excess: its values are
// counted before anything is made of them. What is no JSON is left to the reader.
func (r *Route) Measure(body []byte) (memory int64, err error) {
	m := measure{body: body, open: make([]level, 0, 16)}
	for m.at < len(body) {
		if err := m.token(&r.tree); err != nil {
			return 0, err
		}
	}
	return perByte*int64(len(body)) + perValue*int64(m.values) + perNumber*int64(m.numbers), nil
}

// token reads what comes next.
func (m *measure) token(top *node) error {
	switch c := m.body[m.at]; c {
	case ' ', '\t', '\r', '\n', ':', ',':
		m.at++
	case '}', ']':
		m.at++
		return m.close()
	case '"':
		return m.text()
	case '{', '[':
		m.at++
		n, err := m.value(false)
		switch {
		case err != nil:
			return err
		case len(m.open) == MostDepth:
			return &Excess{Why: fmt.Sprintf("The body's values are nested more than %d deep", MostDepth)}
		case len(m.open) == 0:
			n = top
		}
		m.open = append(m.open, level{node: n, begin: m.at - 1, list: c == '['})
	default:
		begin := m.at
		for m.at++; m.at < len(m.body) && strings.IndexByte(",:]}{[\" \t\r\n", m.body[m.at]) < 0; m.at++ {
		}
		n, err := m.value(c == '-' || c >= '0' && c <= '9')
		return cmp.Or(err, n.within(m.at-begin))
	}
	return nil
}

// text reads a field's name, or a text.
func (m *measure) text() error {
	begin := m.at + 1
	end := begin
	for end < len(m.body) && m.body[end] != '"' {
		if m.body[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(m.body))
	m.at = end + 1
	if n := len(m.open); n > 0 && !m.open[n-1].list && !m.open[n-1].named {
		return m.name(m.body[begin:end], &m.open[n-1])
	}
	n, err := m.value(false)
	return cmp.Or(err, n.within(end-begin))
}

// close ends an object or a list.
func (m *measure) close() error {
	top := len(m.open) - 1
	if top < 0 {
		return nil
	}
	ended := m.open[top]
	m.open = m.open[:top]
	return ended.node.within(m.at - ended.begin)
}

// within says that a value has more bytes than it may.
func (n *node) within(size int) error {
	if n == nil || n.field == nil || n.field.MostBytes == 0 || size <= n.field.MostBytes {
		return nil
	}
	return &Excess{n.field.Path, fmt.Sprintf("%s has %d bytes; it may have %d", n.field.Path, size, n.field.MostBytes)}
}

func (m *measure) name(raw []byte, in *level) error {
	if len(raw) > MostName {
		return &Excess{Why: fmt.Sprintf("A field's name has %d bytes; it may have %d", len(raw), MostName)}
	}
	in.named, in.next = true, nil
	if in.node == nil {
		return nil
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		var name string
		_ = json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &name) // what is no text names nothing
		raw = []byte(name)
	}
	in.next = in.node.step(raw)
	return nil
}

// value counts one, and returns its place.
func (m *measure) value(number bool) (n *node, err error) {
	if len(m.open) == 0 {
		return nil, nil //nolint:nilnil // the body has no place in another value
	}
	in := &m.open[len(m.open)-1]
	switch {
	case !in.list:
		n, in.named = in.next, false
	case in.node != nil:
		n = in.node.below[elements]
	}
	if in.list && number {
		in.numbers++
		m.numbers++
	} else {
		in.values++
		m.values++
	}
	if m.values > MostValues {
		return nil, &Excess{Why: fmt.Sprintf("The body has more than %d values", MostValues)}
	}
	if in.node != nil && in.node.field != nil {
		f := in.node.field
		if f.Most > 0 && in.values > f.Most {
			return nil, &Excess{f.Path, fmt.Sprintf("%s has more than %d elements", f.Path, f.Most)}
		}
		if f.MostNumbers > 0 && in.numbers > f.MostNumbers {
			return nil, &Excess{f.Path, fmt.Sprintf("%s has more than %d numbers", f.Path, f.MostNumbers)}
		}
	}
	return n, nil
}
