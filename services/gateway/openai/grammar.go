package openai

import (
	"bytes"
	"encoding/json"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// grammars are the fields that say what an answer keeps to, beside response_format: as vLLM
// names them now, inside structured_outputs, and as it named them before.
var grammars = []struct {
	field, before string
	set           func(*pb.Grammar, json.RawMessage) bool
}{
	{"json", "guided_json", setSchema},
	{"regex", "guided_regex", func(g *pb.Grammar, raw json.RawMessage) bool {
		return json.Unmarshal(raw, &g.Regex) == nil && g.Regex != ""
	}},
	{"choice", "guided_choice", func(g *pb.Grammar, raw json.RawMessage) bool {
		return json.Unmarshal(raw, &g.Choice) == nil && len(g.Choice) > 0
	}},
	{"grammar", "guided_grammar", func(g *pb.Grammar, raw json.RawMessage) bool {
		return json.Unmarshal(raw, &g.Ebnf) == nil && g.Ebnf != ""
	}},
	{"json_object", "guided_json_object", func(g *pb.Grammar, raw json.RawMessage) bool { return json.Unmarshal(raw, &g.JsonObject) == nil }},
}

// setSchema takes a schema, as it is or as a string.
func setSchema(g *pb.Grammar, raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(bytes.TrimSpace(raw))
	}
	g.JsonSchema = text
	return text != ""
}

// grammar takes what an answer keeps to. Documents have no white space between their tokens
// unless that is asked for, as with OpenAI. from is the field that says it.
func grammar(o *Object, p *pb.Prompt) (from string) {
	g := &pb.Grammar{Compact: true}
	var given []string
	format := o.Inner("response_format")
	if Format(format, g) {
		given = append(given, "response_format")
	}
	if format != nil && format.err != nil {
		o.Fail(format.err)
	}
	in := o.Inner("structured_outputs")
	for _, one := range grammars {
		if raw := o.Raw(one.before); raw != nil {
			given = append(given, takeGrammar(o, one.before, raw, g, one.set))
		}
		if in == nil {
			continue
		}
		if raw := in.Raw(one.field); raw != nil {
			given = append(given, takeGrammar(o, in.At(one.field), raw, g, one.set))
		}
	}
	if in != nil {
		g.Compact = Or(in, "disable_any_whitespace", true)
		o.EndOf(in)
	}
	switch {
	case len(given) > 1:
		o.Fail(Bad(given[1], "%s and %s both say what the answer is to be: give one of them", given[0], given[1]))
	case len(given) == 1:
		p.Grammar = g
		return given[0]
	}
	return ""
}

func takeGrammar(o *Object, field string, raw json.RawMessage, g *pb.Grammar, set func(*pb.Grammar, json.RawMessage) bool) string {
	if !set(g, raw) {
		o.Fail(Bad(field, "%s is empty or of another type than it has to be", field))
	}
	return field
}

// Format takes a form of answers as OpenAI's APIs have it into g; false: it is text. An object
// may have a schema, too, as llama.cpp's clients write it.
func Format(in *Object, g *pb.Grammar) bool {
	if in == nil {
		return false
	}
	kind := Or(in, "type", "")
	schema := in.Raw("schema")
	if inner := in.Inner("json_schema"); inner != nil && schema == nil { // chats have it one level deeper than responses
		schema = inner.Raw("schema")
	}
	switch kind {
	case "text":
		if schema != nil {
			in.Fail(Bad(in.At("schema"), "%s is of type text and has a schema: make it json_schema", in.At("")))
		}
		return false
	case "json_object", "json_schema":
		switch {
		case schema == nil && kind == "json_object":
			g.JsonObject = true
		case schema == nil || !setSchema(g, schema):
			in.Fail(Bad(in.At("json_schema"), "%s is of type %s and has no schema", in.At(""), kind))
		}
	default:
		in.Fail(Bad(in.At("type"), "%s is %.40q; it can be text, json_object or json_schema", in.At("type"), kind))
	}
	return true
}
