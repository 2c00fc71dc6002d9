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
	// Tokens of the context: what has more objects and strings than twice as many, and
	// than stop strings and the like may be, cannot fit it, and is not decoded.
	Tokens int
}

// CheckSize refuses a body that is too long to be read at all.
func (l Limits) CheckSize(n int) error {
	if l.Bytes > 0 && int64(n) > l.Bytes {
		return Errorf(PayloadTooLarge, "the body has %d bytes; what fits the context of %d tokens has %d at most, and more is not read", n, l.Tokens, l.Bytes)
	}
	return nil
}

// objects is how many there may be.
func (l Limits) objects() int {
	if l.Tokens == 0 {
		return maxObjects
	}
	return min(maxObjects, 2*max(l.Tokens, maxStopIDs))
}

func (l Limits) checkObjects(n int) error {
	if most := l.objects(); n > most {
		return Errorf(BadRequest, "the body has %d messages, other objects and strings in lists; at most %d are allowed", n, most)
	}
	return nil
}

// objectsIn counts the objects of a JSON body and the strings in its lists, if there
// may be more than most. What is malformed is left to the decoder.
func objectsIn(body []byte, most int) (n int) {
	if bytes.Count(body, []byte("{")) <= most && bytes.Count(body, []byte(`"`)) <= 2*most {
		return 0
	}
	before := byte(0) // the last byte that was no space; '"' after a string
	listed := false   // that string may be one of a list
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c <= ' ':
			continue
		case c == '"':
			listed = before == '[' || before == ','
			i = endOfString(body, i)
		case c == '{', listed && before == '"' && (c == ',' || c == ']'):
			n++
		}
		before = body[min(i, len(body)-1)]
	}
	return n
}

// endOfString is where the string ends that begins at a quote.
func endOfString(body []byte, at int) int {
	for at++; at < len(body) && body[at] != '"'; at++ {
		if body[at] == '\\' {
			at++
		}
	}
	return at
}

// messagesIn counts the messages within a protobuf message, and the strings in its
// lists. What is malformed is left to the decoder.
func messagesIn(d protoreflect.MessageDescriptor, body []byte) (n int) {
	for len(body) > 0 {
		number, _, size := protowire.ConsumeField(body)
		if size < 0 {
			break
		}
		if f := d.Fields().ByNumber(number); f != nil && (f.Kind() == protoreflect.MessageKind || f.IsList() && f.Kind() == protoreflect.StringKind) {
			n++
		}
		body = body[size:]
	}
	return n
}
