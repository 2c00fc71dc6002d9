package edge

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxObjects bounds the messages of a body, the objects in JSON, and the strings in
// lists: decoded, the smallest of them take 80 and 16 times their bytes.
const maxObjects = 1 << 17

func checkObjects(n int) error {
	if n > maxObjects {
		return Errorf(BadRequest, "the body has %d messages, other objects and strings in lists; at most %d are allowed", n, maxObjects)
	}
	return nil
}

// objectsIn counts the objects of a JSON body and the strings in its lists, if there
// may be too many. What is malformed is left to the decoder.
func objectsIn(body []byte) (n int) {
	if bytes.Count(body, []byte("{")) <= maxObjects && bytes.Count(body, []byte(`"`)) <= 2*maxObjects {
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
