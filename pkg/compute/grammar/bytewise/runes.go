package bytewise

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The characters that are no characters: halves of pairs in UTF-16.
const firstHalf, lastHalf = 0xd800, 0xdfff

// firstOfSize are the first characters whose UTF-8 has one more byte than those before.
var firstOfSize = []rune{0x80, 0x800, firstHalf, lastHalf + 1, 0x10000}

// plainRange adds a range of characters in UTF-8.
func (n *nfa) plainRange(from, to int32, low, high rune) {
	for _, cut := range firstOfSize {
		if low < cut && cut <= high {
			n.plainRange(from, to, low, cut-1)
			low = cut
		}
	}
	if low > high || low >= firstHalf && low <= lastHalf {
		return
	}
	n.sequences(from, to, low, high)
}

// sequences adds characters whose UTF-8 has the same size.
func (n *nfa) sequences(from, to int32, low, high rune) {
	var a, b [utf8.UTFMax]byte
	size := utf8.EncodeRune(a[:], low)
	utf8.EncodeRune(b[:], high)
	n.between(from, to, a[:size], b[:size])
}

// between adds the sequences of bytes from a to b, all of whose bytes but the first are
// from 0x80 to 0xbf.
func (n *nfa) between(from, to int32, a, b []byte) {
	const least, most = 0x80, 0xbf
	if len(a) == 1 {
		n.move(from, a[0], b[0], to)
		return
	}
	rest := func(first, last byte, a, b []byte) {
		next := n.add()
		n.move(from, first, last, next)
		n.between(next, to, a, b)
	}
	lows, highs := slices.Repeat([]byte{least}, len(a)-1), slices.Repeat([]byte{most}, len(a)-1)
	if a[0] == b[0] {
		rest(a[0], a[0], a[1:], b[1:])
		return
	}
	first, last := a[0], b[0]
	if !slices.Equal(a[1:], lows) {
		rest(first, first, a[1:], highs)
		first++
	}
	if !slices.Equal(b[1:], highs) {
		rest(last, last, lows, b[1:])
		last--
	}
	if first <= last {
		rest(first, last, lows, highs)
	}
}

// escapes are the characters that JSON writes with a letter, and the letter.
const escapes, letters = "\"\\/\b\f\n\r\t", `"\/bfnrt`

// quotedRange adds a range of characters as JSON's strings have them.
func (n *nfa) quotedRange(from, to int32, low, high rune) {
	for _, whole := range [][2]rune{{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, utf8.MaxRune}} {
		if l, h := max(low, whole[0]), min(high, whole[1]); l <= h {
			n.plainRange(from, to, l, h)
		}
	}
	slash := int32(-1)
	escape := func() int32 {
		if slash < 0 {
			slash = n.add()
			n.move(from, '\\', '\\', slash)
		}
		return slash
	}
	for i, r := range escapes {
		if r >= low && r <= high && (!n.Plain || r != '/') {
			n.move(escape(), letters[i], letters[i], to)
		}
	}
	if n.Plain {
		n.controls(escape, to, low, min(high, 0x1f))
		return
	}
	n.numbered(escape, to, low, high)
}

// numbered adds \uXXXX of a range of characters, in pairs where UTF-16 has them in two halves.
func (n *nfa) numbered(escape func() int32, to int32, low, high rune) {
	last := rune(utf8.MaxRune)
	if !n.every {
		last = 0x7f
	}
	const digits, half = 4, 0x400
	for _, whole := range [][2]rune{{0, firstHalf - 1}, {lastHalf + 1, 0xffff}} {
		if l, h := max(low, whole[0]), min(high, whole[1], last); l <= h {
			n.hexes(n.literal(escape(), "u"), to, l, h, digits)
		}
	}
	low, high = max(low, 0x10000)-0x10000, min(high, last)-0x10000
	for low <= high {
		end := low | (half - 1) // of the characters with the same first half
		if low%half == 0 && high-low >= half {
			end = (high+1)/half*half - 1
		}
		end = min(end, high)
		second := n.add()
		n.hexes(n.literal(escape(), "u"), second, firstHalf+low/half, firstHalf+end/half, digits)
		first, last := low%half, end%half
		if low/half != end/half {
			first, last = 0, half-1
		}
		n.hexes(n.literal(second, `\u`), to, firstHalf+half+first, firstHalf+half+last, digits)
		low = end + 1
	}
}

// hexes adds the hexadecimal numbers of a range, of so many digits.
func (n *nfa) hexes(from, to int32, low, high rune, digits int) {
	if digits == 1 {
		n.hex(from, to, int(low), int(high))
		return
	}
	size := rune(1) << (4 * (digits - 1))
	for low <= high {
		top, end := low/size, low|(size-1)
		last := top
		if low%size == 0 && high-low >= size-1 { // all numbers below some digits
			last = (high+1)/size - 1
			end = (last+1)*size - 1
		}
		next := n.add()
		n.hex(from, next, int(top), int(last))
		end = min(end, high)
		if top == last {
			n.hexes(next, to, low%size, end%size, digits-1)
		} else {
			n.hexes(next, to, 0, size-1, digits-1)
		}
		low = end + 1
	}
}

// controls adds the control characters that have no letter.
func (n *nfa) controls(escape func() int32, to int32, low, high rune) {
	for r := low; r <= high; r++ {
		if !strings.ContainsRune(escapes, r) {
			top := n.literal(escape(), fmt.Sprintf("u%04x", r))
			n.free(top, to)
		}
	}
}

func (n *nfa) literal(from int32, text string) int32 {
	for i := range len(text) {
		next := n.add()
		n.move(from, text[i], text[i], next)
		from = next
	}
	return from
}

// hex adds a hexadecimal digit from low to high.
func (n *nfa) hex(from, to int32, low, high int) {
	const digits = "0123456789abcdef"
	for _, d := range digits[low : high+1] {
		n.move(from, byte(d), byte(d), to)
		if d >= 'a' {
			upper := strings.ToUpper(string(d))[0]
			n.move(from, upper, upper, to)
		}
	}
}
