package edge

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxObjects bounds the messages of a body, and the objects in JSON: decoded, the
// smallest of them takes 80 times its bytes.
const maxObjects = 1 << 17

func checkObjects(n int) error {
	if n > maxObjects {
		return Errorf(BadRequest, "the body has %d messages or other objects; at most %d are allowed", n, maxObjects)
	}
	return nil
}

// objectsIn counts the objects of a JSON body, if there may be too many.
func objectsIn(body []byte) (n int) {
	if bytes.Count(body, []byte("{")) <= maxObjects {
		return 0
	}
	quoted := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '{' && !quoted:
			n++
		}
	}
	return n
}

// messagesIn counts the messages within a protobuf message. What is malformed is left
// to the decoder.
func messagesIn(d protoreflect.MessageDescriptor, body []byte) (n int) {
	for len(body) > 0 {
		number, _, size := protowire.ConsumeField(body)
		if size < 0 {
			break
		}
		if f := d.Fields().ByNumber(number); f != nil && f.Kind() == protoreflect.MessageKind {
			n++
		}
		body = body[size:]
	}
	return n
}
