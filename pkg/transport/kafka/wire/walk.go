package wire

import "encoding/binary"

// A shape says what a message consists of, a letter or digit a field:
//
//	1 2 4 8   so many bytes
//	s b       a text or bytes, or none, after their length
//	[…]       any number of what is between the brackets, or none
//
// and fields that somebody looks at: texts t (a topic), g (a group), y (a group's kind of
// protocol), o (one of its protocols), d (a topic's setting) and x (a transaction); bytes r (record batches),
// S (what a member of a group wants) and A (what it gets); numbers p (a partition),
// n (how many partitions), a (how many brokers are to have it), c (how many bytes), w (how
// long to wait), j (how long others may take to join), k (what a coordinator is for) and
// V (versions of a message).
const (
	texts = "stgyodx"
	blobs = "brSA"
)

// widths are of fields that always have the same number of bytes.
var widths = map[byte]int{'1': 1, '2': 2, '4': 4, '8': 8, 'p': 4, 'n': 4, 'a': 2, 'c': 4, 'w': 4, 'j': 4, 'k': 1, 'V': 6}

// Field is one that somebody looks at: its bytes are from From to To.
type Field struct {
	Kind     byte
	From, To int
	Null     bool
}

const maxText = 4 << 10

// walker goes through a message. It makes no room for anything.
type walker struct {
	in  []byte
	at  int
	see func(Field) error
}

// Walk wants a message to have a shape, and shows see each field that somebody looks at.
// It wants nothing to be left over.
func Walk(shape string, in []byte, see func(Field) error) error {
	w := &walker{in: in, see: see}
	if err := w.fields(shape); err != nil {
		return err
	}
	if w.at != len(in) {
		return malformed("%d bytes after the end of a message", len(in)-w.at)
	}
	return nil
}

// fields goes through fields up to the shape's end, or to the bracket that ends an array.
func (w *walker) fields(shape string) (err error) {
	for shape != "" && shape[0] != ']' && err == nil {
		kind := shape[0]
		if shape = shape[1:]; kind != '[' {
			err = w.field(kind)
			continue
		}
		err = w.array(shape)
		shape = afterArray(shape)
	}
	return err
}

// array goes through as many elements as are announced. Each has a byte at least, so
// that the message's end is theirs.
func (w *walker) array(shape string) error {
	at, err := w.take(4)
	if err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(w.in[at:])))
	if n < -1 || n > len(w.in)-w.at {
		return malformed("%d elements in %d bytes", n, len(w.in)-w.at)
	}
	for range n {
		if err := w.fields(shape); err != nil {
			return err
		}
	}
	return nil
}

// afterArray is what comes after the bracket that ends an array.
func afterArray(shape string) string {
	depth := 1
	for i := range len(shape) {
		switch shape[i] {
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth == 0 {
			return shape[i+1:]
		}
	}
	return ""
}

func (w *walker) field(kind byte) error {
	if n, ok := widths[kind]; ok {
		return w.value(kind, n, false)
	}
	n, err := w.length(kind)
	if err != nil {
		return err
	}
	return w.value(kind, max(n, 0), n < 0)
}

// length is a text's or that of bytes; -1 is of none.
func (w *walker) length(kind byte) (n int, err error) {
	if isOf(kind, texts) {
		at, err := w.take(2)
		if err != nil {
			return 0, err
		}
		n = int(int16(binary.BigEndian.Uint16(w.in[at:])))
		if n > maxText {
			return 0, malformed("a text of %d bytes", n)
		}
	} else {
		at, err := w.take(4)
		if err != nil {
			return 0, err
		}
		n = int(int32(binary.BigEndian.Uint32(w.in[at:])))
	}
	if n < -1 {
		return 0, malformed("a length of %d", n)
	}
	return n, nil
}

func (w *walker) value(kind byte, n int, null bool) error {
	at, err := w.take(n)
	if err != nil || w.see == nil || kind >= '1' && kind <= '8' {
		return err
	}
	return w.see(Field{Kind: kind, From: at, To: at + n, Null: null})
}

// take goes over n bytes, and returns where they are.
func (w *walker) take(n int) (at int, err error) {
	if n > len(w.in)-w.at {
		return 0, malformed("a field of %d bytes where %d are left", n, len(w.in)-w.at)
	}
	at = w.at
	w.at += n
	return at, nil
}

func isOf(kind byte, kinds string) bool {
	for i := range len(kinds) {
		if kinds[i] == kind {
			return true
		}
	}
	return false
}
