package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// malformed says what is wrong with a body in words of its own encoding.
func malformed(encoding string, err error) error {
	if err == nil {
		return nil
	}
	return Errorf(BadRequest, "malformed %s body: %s", encoding, wordsOf(err))
}

// wordsOf returns the library's: it begins with its name, and writes some spaces as U+00A0.
func wordsOf(err error) string {
	what := strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto:"))
	if strings.HasSuffix(what, io.ErrUnexpectedEOF.Error()) {
		return "it ends too early"
	}
	return what
}

// How protojson tells of a value of the wrong kind: of a field by the name that it has in
// Go's JSON, of a list or an object as of wrong syntax.
var (
	wrongValue = regexp.MustCompile(`(?s)^(.*invalid value for \w+ field )(\w+): (.*)$`)
	wrongKind  = regexp.MustCompile(`(?s)^syntax error (\(.*?\)): unexpected token (.*)$`)
)

// malformedJSON says the same of a JSON body, with the names of fields that api.md has.
func malformedJSON(body []byte, d protoreflect.MessageDescriptor, err error) error {
	if err == nil {
		return nil
	}
	what := wordsOf(err)
	if field := wrongValue.FindStringSubmatch(what); field != nil {
		name := documentedName(d, field[2])
		what = field[1] + name + ": " + field[3]
		if slices.Contains(slices.Concat(rawFields, rawMessageFields, rawGrammarFields), name) && (field[3] == "[" || field[3] == "{") {
			what = name + ": " + syntaxError(body)
		}
	}
	if kind := wrongKind.FindStringSubmatch(what); kind != nil && json.Valid(body) {
		what = kind[1] + ": a list or an object is wanted where " + kind[2] + " stands"
	}
	return Errorf(BadRequest, "malformed JSON body: %s", what)
}

// syntaxError returns why quoteRaw could not read a body.
func syntaxError(body []byte) string {
	err := json.Unmarshal(body, &json.RawMessage{})
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("byte %d: %v", syntax.Offset-1, err)
	}
	return "it cannot be read"
}

// documentedName returns a field's name as it stands in the schema, in the message or one within.
func documentedName(d protoreflect.MessageDescriptor, name string) string {
	if f := d.Fields().ByJSONName(name); f != nil {
		return string(f.Name())
	}
	for i := range d.Fields().Len() {
		if within := d.Fields().Get(i).Message(); within != nil {
			if found := documentedName(within, name); found != name {
				return found
			}
		}
	}
	return name
}
