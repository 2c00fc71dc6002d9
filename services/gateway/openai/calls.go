package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Call is a part of an answer that asks for a tool, or all of it.
type Call struct {
	Index     int
	ID, Name  string // empty in the parts behind the first
	Arguments string
}

// CallsOf are the parts of calls in a chunk.
func CallsOf(c *pb.Chunk) (out []Call) {
	for _, t := range c.GetParsed().GetToolCalls() {
		out = append(out, Call{Index: int(t.Index), ID: t.Id, Name: t.Name, Arguments: t.Arguments})
	}
	return out
}

// Joined are calls with a part more.
func Joined(calls []Call, part Call) []Call {
	if n := len(calls); n > 0 && calls[n-1].Index == part.Index {
		calls[n-1].Arguments += part.Arguments
		return calls
	}
	return append(calls, part)
}

// Choice of calls, as clients of all APIs make it.
const (
	choiceAuto, choiceNone, choiceRequired = "auto", "none", "required"
)

// ToolChoice is whether tools are called.
type ToolChoice struct {
	Mode string // auto, none or required
	// Only names the tools that may be called; nil: all.
	Only []string
}

// Ask has a prompt ask for what may be called, and for what has to be.
func (c ToolChoice) Ask(p *pb.Prompt, names []string, tools []json.RawMessage) *Error {
	if len(tools) == 0 && c.Mode != choiceNone && (c.Mode != choiceAuto || c.Only != nil) {
		return Bad("tool_choice", "tool_choice needs tools")
	}
	for _, name := range c.Only {
		if !slices.Contains(names, name) {
			return Bad("tool_choice", "tool_choice names %.140q, which is none of tools", name)
		}
	}
	if c.Mode == choiceNone || len(tools) == 0 {
		return nil
	}
	kept := tools
	if c.Only != nil {
		kept = nil
		for i, tool := range tools {
			if slices.Contains(c.Only, names[i]) {
				kept = append(kept, tool)
			}
		}
	}
	if c.Mode == choiceRequired {
		p.ToolChoice, p.Grammar = choiceRequired, nil // a call has no other form
	}
	if c.Mode == choiceRequired && len(c.Only) == 1 {
		kept = tools                       // the model sees all of them
		name, _ := json.Marshal(c.Only[0]) // of a string it cannot fail
		p.ToolChoice = `{"type":"function","function":{"name":` + string(name) + `}}`
	}
	list, _ := json.Marshal(kept) // of what was JSON
	p.Tools = string(list)
	return nil
}

// functionNames checks tools, and returns their names.
func functionNames(o *Object, tools []json.RawMessage) (names []string) {
	for i, raw := range tools {
		in, err := ParseAt(raw, fmt.Sprintf("tools[%d]", i))
		if err != nil {
			o.Fail(err)
			return nil
		}
		if kind := Or(in, "type", ""); kind != "function" {
			in.Fail(Unsupported(in.At("type"), `it can only be "function"`))
		}
		f := in.Inner("function")
		if f == nil {
			in.Fail(Bad(in.At("function"), "%s is missing", in.At("function")))
			f = &Object{path: in.At("function")}
		}
		names = append(names, CheckFunction(f))
		if f.err != nil {
			in.Fail(f.err)
		}
		if in.err != nil {
			o.Fail(in.err)
			return nil
		}
	}
	return names
}

// CheckFunction checks the types of a function's fields, and returns its name.
func CheckFunction(f *Object) string {
	name := Or(f, "name", "")
	if name == "" {
		f.Fail(Bad(f.At("name"), "%s is missing", f.At("name")))
	}
	Take[string](f, "description")
	Take[bool](f, "strict")
	Take[map[string]json.RawMessage](f, "parameters")
	return name
}

// readToolChoice reads OpenAI's forms: a word, or an object. Those of Responses have a name at
// its top.
func readToolChoice(o *Object) (c ToolChoice) {
	raw := bytes.TrimSpace(o.Raw("tool_choice"))
	c.Mode = choiceAuto
	if len(raw) == 0 {
		return c
	}
	if raw[0] == '"' {
		_ = json.Unmarshal(raw, &c.Mode) // of what was JSON
		if !slices.Contains([]string{choiceAuto, choiceNone, choiceRequired}, c.Mode) {
			o.Fail(Bad("tool_choice", `tool_choice is %.40q; it can be "auto", "none", "required", or an object that names a function`, c.Mode))
		}
		return c
	}
	o.Put("tool_choice", raw)
	in := o.Inner("tool_choice")
	if in == nil {
		return c
	}
	switch kind := Or(in, "type", ""); kind {
	case "function":
		c.Mode, c.Only = choiceRequired, []string{nameIn(in)}
	case "allowed_tools":
		c = allowed(in)
	default:
		o.Fail(Bad("tool_choice", "tool_choice is of type %.40q; it can be function or allowed_tools", kind))
	}
	o.EndOf(in)
	return c
}

// nameIn is the name of a function, in the form of chats or of Responses.
func nameIn(in *Object) (name string) {
	if f := in.Inner("function"); f != nil {
		name = Or(f, "name", "")
		in.EndOf(f)
	} else {
		name = Or(in, "name", "")
	}
	if name == "" && in.err == nil {
		in.Fail(Bad(in.At("name"), "%s names no function", in.At("")))
	}
	return name
}

func allowed(in *Object) (c ToolChoice) {
	of := in.Inner("allowed_tools") // chats have it one level deeper than responses
	if of == nil {
		of = in
	}
	c.Mode, c.Only = Or(of, "mode", choiceAuto), []string{}
	if c.Mode != choiceAuto && c.Mode != choiceRequired {
		of.Fail(Bad(of.At("mode"), `%s is %.40q; it can be "auto" or "required"`, of.At("mode"), c.Mode))
	}
	for _, tool := range of.List("tools") {
		tool.Ignore("type")
		c.Only = append(c.Only, nameIn(tool))
		of.EndOf(tool)
	}
	if of != in {
		in.EndOf(of)
	}
	return c
}

// ReadTools takes what an answer may or has to call. names checks the tools, and makes them what
// chat templates know; they are returned as they were given.
func ReadTools(o *Object, p *pb.Prompt, names func(*Object, []json.RawMessage) (names []string, tools []json.RawMessage)) (given []json.RawMessage) {
	given = Or[[]json.RawMessage](o, "tools", nil)
	named, tools := names(o, given)
	choice := readToolChoice(o)
	p.ParallelToolCalls = Take[bool](o, "parallel_tool_calls")
	if o.err == nil {
		if err := choice.Ask(p, named, tools); err != nil {
			o.Fail(err)
		}
	}
	return given
}
