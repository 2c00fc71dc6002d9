package edge

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxObjects bounds the messages of a body, the objects in JSON, and the strings in
// lists, whatever the model: decoded, the smallest of them take 80 and 16 times their bytes.
const maxObjects = 1 << 17

// Limits are what is read of a prompt. Zeros are those of no model.
type Limits struct {
	// Bytes of the body; 0: as many as come.
	Bytes int64
	// Tokens of the context: what has more objects and strings than twice as many, or numbers
	// than four times as many, and than stop strings and the like may be, cannot fit it, and
	// is not decoded.
	Tokens int
}

// CheckSize refuses a body that is too long to be read at all.
func (l Limits) CheckSize(n int) error {
	if l.Bytes > 0 && int64(n) > l.Bytes {
		return Errorf(PayloadTooLarge, "the body has %d bytes; what fits the context of %d tokens has %d at most, and more is not read", n, l.Tokens, l.Bytes)
	}
	return nil
}

// objects returns how many there may be.
func (l Limits) objects() int {
	if l.Tokens == 0 {
		return maxObjects
	}
	return min(maxObjects, 2*max(l.Tokens, maxStopIDs))
}

// numbers returns how many there may be in lists: three lists of a prompt have one for each token,
// and one has stop ids.
func (l Limits) numbers() int {
	if l.Tokens == 0 {
		return 4 * maxObjects
	}
	return 4 * max(l.Tokens, maxStopIDs)
}

// content is what a body has of what takes more to decode than its bytes tell.
type content struct {
	objects int // messages, objects in JSON, and strings in lists
	numbers int // in lists and maps
}

func (l Limits) check(c content) error {
	if most := l.objects(); c.objects > most {
		return Errorf(BadRequest, "the body has %d messages, other objects and strings in lists; at most %d are allowed", c.objects, most)
	}
	if most := l.numbers(); c.numbers > most {
		return Errorf(BadRequest, "the body has %d numbers in lists, such as token ids; at most %d are allowed in a context of %d tokens", c.numbers, most, l.Tokens)
	}
	return nil
}

// contentOf counts what is in a JSON body, if there may be more than a model's limits. What
// is malformed is left to the decoder.
func (l Limits) contentOf(body []byte) (found content) {
	most := l.objects()
	if bytes.Count(body, []byte("{")) <= most && bytes.Count(body, []byte(`"`)) <= 2*most &&
		bytes.Count(body, []byte(","))+bytes.Count(body, []byte("[")) <= l.numbers() {
		return found
	}
	before := byte(0) // the last byte that was no space; '"' after a string
	listed := false   // that string may be one of a list
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c <= ' ':
			continue
		case c == '"':
			listed = before == '[' || before == ','
			if next := body[min(i+1, len(body)-1)]; (before == '{' || before == ',') && next >= '0' && next <= '9' {
				found.numbers++ // the key of a map such as logit_bias
			}
			i = endOfString(body, i)
		case c == '{', listed && before == '"' && (c == ',' || c == ']'):
			found.objects++
		case (c == '-' || c >= '0' && c <= '9') && (before == '[' || before == ','):
			found.numbers++
		}
		before = body[min(i, len(body)-1)]
	}
	return found
}

// endOfString returns where the string ends that begins at a quote.
func endOfString(body []byte, at int) int {
	for at++; at < len(body) && body[at] != '"'; at++ {
		if body[at] == '\\' {
			at++
		}
	}
	return at
}

// fieldsIn counts what is in a protobuf message. What is malformed is left to the decoder.
func fieldsIn(d protoreflect.MessageDescriptor, body []byte) (found content) {
	for len(body) > 0 {
		number, kind, size := protowire.ConsumeField(body)
		if size < 0 {
			break
		}
		f := d.Fields().ByNumber(number)
		switch {
		case f == nil:
		case f.Kind() == protoreflect.MessageKind || f.IsList() && f.Kind() == protoreflect.StringKind:
			found.objects++
		case f.IsList() && kind == protowire.BytesType:
			found.numbers += packedIn(body[:size])
		case f.IsList():
			found.numbers++
		}
		body = body[size:]
	}
	return found
}

// packedIn returns how many numbers a packed list has at most: each has one byte below 0x80, and
// so have the tag and the length before them.
func packedIn(field []byte) (n int) {
	for _, b := range field {
		if b < 0x80 {
			n++
		}
	}
	return n - 2
}
