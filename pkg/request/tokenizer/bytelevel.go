package tokenizer

// Byte-level BPE writes each byte as one printable character in vocab and
// merges: printable Latin-1 as itself, the rest from U+0100 on.
//
// Source: bytes_to_unicode in OpenAI's GPT-2 encoder.py.
var (
	charOfByte [256]rune
	byteOfChar = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		c := rune(b)
		visible := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if !visible {
			c = next
			next++
		}
		charOfByte[b] = c
		byteOfChar[c] = byte(b)
	}
}

// bytesOf returns the bytes that a token stands for. A token with a character
// outside the alphabet, as added tokens may have, stands for its own UTF-8;
// mapped tells the two apart.
func bytesOf(token string) (b []byte, mapped bool) {
	for _, c := range token {
		x, ok := byteOfChar[c]
		if !ok {
			return []byte(token), false
		}
		b = append(b, x)
	}
	return b, true
}
