package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/conversation"
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

// wholeCall is a call's first part, and the arguments of all of them.
type wholeCall struct {
	Call
	arguments strings.Builder
}

// joined are calls with a part more.
func joined(calls []*wholeCall, part Call) []*wholeCall {
	if n := len(calls); n == 0 || calls[n-1].Index != part.Index {
		calls = append(calls, &wholeCall{Call: part})
	}
	calls[len(calls)-1].arguments.WriteString(part.Arguments)
	return calls
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
	if len(tools) == 0 && (c.Mode == choiceRequired || len(c.Only) > 0) {
		return Bad("tool_choice", "tool_choice needs tools")
	}
	known := setOf(names)
	for _, name := range c.Only {
		if !known[name] {
			return Bad("tool_choice", "tool_choice names %.140q, which is none of tools", name)
		}
	}
	if c.Mode == choiceRequired && c.Only != nil && len(c.Only) == 0 {
		return Bad("tool_choice", "tool_choice has a tool be called, and allows none that can be")
	}
	if c.Mode == choiceNone || len(tools) == 0 || c.Only != nil && len(c.Only) == 0 {
		return nil
	}
	kept := tools
	if c.Only != nil {
		kept = nil
		only := setOf(c.Only)
		for i, tool := range tools {
			if only[names[i]] {
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

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// ReadFunction takes what is said of a function. That its arguments keep to its schema is so in
// any case where a call is forced.
func ReadFunction(in *Object) conversation.Function {
	f := conversation.Function{Name: Or(in, "name", ""), Description: Take[string](in, "description")}
	if f.Name == "" {
		in.Fail(Bad(in.At("name"), "%s is missing", in.At("name")))
	}
	Take[bool](in, "strict")
	if raw := in.Peek("parameters"); Take[map[string]json.RawMessage](in, "parameters") != nil {
		f.Parameters = raw
	}
	return f
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
		if kind := Or(tool, "type", "function"); kind != "function" && offered(kind) {
			continue // it was left out of tools, too
		}
		c.Only = append(c.Only, nameIn(tool))
		of.EndOf(tool)
	}
	if of != in {
		in.EndOf(of)
	}
	return c
}

// ReadTools takes what an answer may or has to call. read reads a tool, and reports whether it can be
// used here; those that cannot are left out. All are returned as they were given.
func ReadTools(o *Object, p *pb.Prompt, read func(*Object) (f conversation.Function, usable bool)) (given []json.RawMessage) {
	given = Or[[]json.RawMessage](o, "tools", nil)
	var names []string
	var list []json.RawMessage
	for i, raw := range given {
		if !o.Goes() {
			return given
		}
		in, err := ParseAt(raw, fmt.Sprintf("tools[%d]", i))
		if err != nil {
			o.Fail(err)
			return given
		}
		f, usable := read(in)
		if in.err != nil {
			o.Fail(in.err)
			return given
		}
		if usable {
			names, list = append(names, f.Name), append(list, f.Tool())
		}
	}
	choice := readToolChoice(o)
	p.ParallelToolCalls = Take[bool](o, "parallel_tool_calls")
	if o.err == nil {
		if err := choice.Ask(p, names, list); err != nil {
			o.Fail(err)
		}
	}
	return given
}
