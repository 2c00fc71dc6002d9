package edge

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Fields of a prompt that hold JSON as a string. In a JSON body they may stand as
// what they are: they go to the chat template as they were written, and protobuf's
// own types for JSON keep no order of keys.
var (
	rawFields        = []string{"tools", "tool_choice", "chat_template_kwargs"}
	rawMessageFields = []string{"tool_calls"}
	rawGrammarFields = []string{"json_schema"}
)

// quoteRaw makes strings of those fields. What is malformed stays as it is, for the
// decoder to tell.
func quoteRaw(body []byte) []byte {
	for _, name := range slices.Concat(rawFields, rawMessageFields, rawGrammarFields) {
		if bytes.Contains(body, []byte(`"`+name+`"`)) {
			return rewriteFields(body, func(name string, value []byte) []byte {
				if name == "grammar" {
					return rewriteFields(value, func(name string, value []byte) []byte { return quoteIf(rawGrammarFields, name, value) })
				}
				if name == "messages" {
					return rewriteItems(value, func(message []byte) []byte {
						return rewriteFields(message, func(name string, value []byte) []byte { return quoteIf(rawMessageFields, name, value) })
					})
				}
				return quoteIf(rawFields, name, value)
			})
		}
	}
	return body
}

// quoteIf makes a string of an array or object under one of these names.
func quoteIf(names []string, name string, value []byte) []byte {
	if !slices.Contains(names, name) || value[0] != '[' && value[0] != '{' {
		return value
	}
	quoted, err := json.Marshal(string(value))
	if err != nil {
		return value
	}
	return quoted
}

// rewriteFields replaces the values of an object; anything else stays.
func rewriteFields(raw []byte, change func(name string, value []byte) []byte) []byte {
	return rewrite(raw, '{', func(d *json.Decoder) (string, bool) {
		key, err := d.Token()
		name, ok := key.(string)
		return name, ok && err == nil
	}, change)
}

// rewriteItems replaces the items of a list; anything else stays.
func rewriteItems(raw []byte, change func(item []byte) []byte) []byte {
	return rewrite(raw, '[', func(*json.Decoder) (string, bool) { return "", true }, func(_ string, item []byte) []byte { return change(item) })
}

// rewrite replaces what stands in a list or object; name reads what is before a value.
func rewrite(raw []byte, open json.Delim, name func(*json.Decoder) (string, bool), change func(name string, value []byte) []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != open {
		return raw
	}
	var out bytes.Buffer
	done := 0
	for d.More() {
		key, ok := name(d)
		var value json.RawMessage
		if !ok || d.Decode(&value) != nil {
			return raw
		}
		end := int(d.InputOffset())
		out.Write(raw[done : end-len(value)])
		out.Write(change(key, value))
		done = end
	}
	out.Write(raw[done:])
	return out.Bytes()
}
