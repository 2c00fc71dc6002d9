package calls

import (
	"encoding/json"
	"strings"
)

// object reads {"name": …, "arguments": …} as it comes. The call begins with its arguments, or
// at the object's end.
type object struct {
	raw       strings.Builder // all of it, while it may yet be content
	state     byte
	quoted    strings.Builder // a key, with its quotation marks
	key       string
	value     value
	kept      strings.Builder // a value that is not told as it comes
	name      string
	arguments string // that came before the name
	opened    bool
	told      bool // arguments are
}

// States of an object, named by what comes next.
const (
	wantObject byte = iota
	wantKey
	inKey
	wantColon
	wantValue
	inValue
	wantMore
	whole
	failed
)

// push takes text in, and returns what stands behind the object's end.
func (o *object) push(r *Reader, text string) (rest string) {
	for text != "" && o.state != whole && o.state != failed {
		n := o.step(r, text)
		if !o.opened {
			o.raw.WriteString(text[:n])
		}
		text = text[n:]
	}
	return text
}

// step takes some of a text in, and says how much; nothing where it fails.
func (o *object) step(r *Reader, text string) int {
	c := text[0]
	switch o.state {
	case inKey:
		return o.inKey(text)
	case inValue:
		return o.inValue(r, text)
	}
	if isWhite(c) {
		return 1
	}
	next := failed
	switch {
	case o.state == wantObject && c == '{', o.state == wantMore && c == ',':
		next = wantKey
	case o.state == wantKey && c == '"':
		next = inKey
		o.quoted.Reset()
		o.value = value{}
		o.inKeyByte(text[:1])
	case (o.state == wantKey || o.state == wantMore) && c == '}':
		return o.finish(r)
	case o.state == wantColon && c == ':':
		next = wantValue
	case o.state == wantValue:
		o.state, o.value = inValue, value{}
		o.kept.Reset()
		return 0
	}
	if o.state = next; next == failed {
		return 0
	}
	return 1
}

func (o *object) inKeyByte(text string) {
	o.value.push(text)
	o.quoted.WriteString(text)
}

// inKey reads a key up to its end.
func (o *object) inKey(text string) int {
	n, ended := o.value.push(text)
	o.quoted.WriteString(text[:n])
	if ended {
		o.state = wantColon
		if json.Unmarshal([]byte(o.quoted.String()), &o.key) != nil {
			o.state = failed
		}
	}
	return n
}

// isArguments reports whether a key's value is what the tool is called with.
func (o *object) isArguments() bool {
	return o.key == "arguments" || o.key == "parameters" || o.key == "args"
}

// inValue reads a value. Arguments that are an object are told as they come, once the name is known.
func (o *object) inValue(r *Reader, text string) int {
	if o.isArguments() && o.name != "" && !o.told && o.kept.Len() == 0 && !o.value.begun && text[0] == '{' {
		o.open(r)
		o.told = true
	}
	stream := o.isArguments() && o.told && o.kept.Len() == 0
	n, ended := o.value.push(text)
	if stream {
		r.arguments(text[:n])
	} else {
		o.kept.WriteString(text[:n])
	}
	if ended {
		o.state = wantMore
		if !stream {
			o.take()
		}
	}
	return n
}

func (o *object) open(r *Reader) {
	o.opened = true
	r.open(o.name, "")
}

// take takes a value that was kept.
func (o *object) take() {
	text := o.kept.String()
	o.kept.Reset()
	switch {
	case o.key == "name" && o.name == "":
		_ = json.Unmarshal([]byte(text), &o.name) // what is no text leaves it empty
	case o.isArguments() && !o.told:
		o.arguments = text
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil { // JSON in a string, or null
			o.arguments = inner
		}
	}
}

// finish ends the object, which is a call if it has a name.
func (o *object) finish(r *Reader) int {
	if o.name == "" {
		o.state = failed
		return 0
	}
	if !o.opened {
		o.open(r)
	}
	if !o.told {
		if strings.TrimSpace(o.arguments) == "" {
			o.arguments = "{}"
		}
		r.arguments(o.arguments)
	}
	o.state = whole
	return 1
}

// done says that nothing more belongs to it.
func (o *object) done() bool { return o.state == whole || o.state == failed }

// json returns the key or the value that is being read; nil: none is.
func (o *object) json() *value {
	if o == nil || o.state != inKey && o.state != inValue {
		return nil
	}
	return &o.value
}
