package bytewise

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// runes adds a character of some ranges (low, high, low, high, …) behind a node.
func (n *nfa) runes(from int32, ranges []rune) int32 {
	end := n.add()
	for i := 0; i+1 < len(ranges); i += 2 {
		if n.Quoted {
			n.quotedRange(from, end, ranges[i], ranges[i+1])
		} else {
			n.plainRange(from, end, ranges[i], ranges[i+1])
		}
	}
	return end
}

// anyRune adds any character.
func (n *nfa) anyRune(from int32) int32 { return n.runes(from, []rune{0, utf8.MaxRune}) }

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
	if low <= 0 && high >= utf8.MaxRune {
		n.anyEscape(escape(), to)
		return
	}
	n.escapedRange(escape, to, low, min(high, 0x7f))
}

// escapedRange adds \u00XX of ASCII characters.
func (n *nfa) escapedRange(escape func() int32, to int32, low, high rune) {
	if low > high {
		return
	}
	zeros := n.literal(escape(), "u00")
	for top := low >> 4; top <= high>>4; top++ {
		at := n.add()
		n.hex(zeros, at, int(top), int(top))
		n.hex(at, to, int(max(low, top<<4)&15), int(min(high, top<<4|15)&15))
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

// anyEscape adds \uXXXX of any character, in pairs where UTF-16 has it in two halves.
func (n *nfa) anyEscape(slash, to int32) {
	u := n.literal(slash, "u")
	digits := func(from, to int32, count int) {
		for range count - 1 {
			next := n.add()
			n.hex(from, next, 0, 15)
			from = next
		}
		n.hex(from, to, 0, 15)
	}
	three, half, second := n.add(), n.add(), n.add()
	n.hex(u, three, 0, 12)
	n.hex(u, three, 14, 15)
	digits(three, to, 3)
	n.hex(u, half, 13, 13)
	two := n.add()
	n.hex(half, two, 0, 7)
	digits(two, to, 2)
	paired, pair := n.add(), n.add()
	n.hex(half, paired, 8, 11)
	digits(paired, pair, 2)
	n.hex(n.literal(pair, `\u`), second, 13, 13)
	last := n.add()
	n.hex(second, last, 12, 15)
	digits(last, to, 2)
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
