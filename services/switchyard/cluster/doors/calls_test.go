package doors

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// tools are ones whose arguments are bounded, so that a model that knows nothing ends them.
var tools = map[string]string{
	"weather": `{"type":"object","properties":{"town":{"type":"string","maxLength":12},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["celsius","fahrenheit"]}},"required":["town","unit"]}`,
	"book":    `{"type":"object","properties":{"seats":{"type":"array","items":{"type":"string","pattern":"^[A-F][0-9]{1,2}$"},"minItems":1,"maxItems":3},"when":{"type":"string","format":"date"}},"required":["seats","when"],"additionalProperties":false}`,
	"tree":    `{"$defs":{"leaf":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"]}},"type":"object","properties":{"left":{"$ref":"#/$defs/leaf"},"right":{"anyOf":[{"$ref":"#/$defs/leaf"},{"type":"null"}]}},"required":["left","right"]}`,
	"nothing": `{"type":"object","properties":{}}`,
}

// valid wants arguments to be what a tool's schema allows.
func valid(t testing.TB, name, arguments string) {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(tools[name]))
	if err != nil {
		t.Fatalf("no tool is named %q: %v", name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("tool.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("tool.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(arguments))
	if err == nil {
		err = compiled.Validate(v)
	}
	if err != nil {
		t.Errorf("%s is called with %s: %v", name, arguments, err)
	}
}

type called struct {
	Choices []struct {
		Message struct {
			Content   *string
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
}

// described are the tools in the form of chats, or with a name for the schema in another one's.
func described(schema string, flat bool) string {
	var all []string
	for _, name := range []string{"weather", "book", "tree", "nothing"} {
		f := fmt.Sprintf(`{"name":%q,"description":"It is there.",%q:%s`, name, schema, tools[name])
		switch {
		case !flat:
			f = `{"type":"function","function":` + f + "}}"
		case schema == "parameters":
			f += `,"type":"function"}`
		default:
			f += "}"
		}
		all = append(all, f)
	}
	return `"tools":[` + strings.Join(all, ",") + "]"
}

// A call that has to be is one, of a tool that there is, with arguments of its schema: whatever
// a model that knows no tools would rather say.
func TestForcedCalls(t *testing.T) {
	t.Parallel()
	d := openOf(t, clustertest.Demo(t), clustertest.Context(256))
	chat := `{"model":"demo","temperature":1,"max_tokens":200,"messages":[{"role":"user","content":"What will it be?"}],` + described("parameters", false)
	ask := func(body string) (c called) {
		t.Helper()
		_, answer := d.post(t, "/v1/chat/completions", body)
		if err := json.Unmarshal([]byte(answer), &c); err != nil || len(c.Choices) == 0 {
			t.Fatalf("%s", answer)
		}
		for _, choice := range c.Choices {
			if len(choice.Message.ToolCalls) != 1 || choice.FinishReason != "tool_calls" || choice.Message.Content != nil {
				t.Fatalf("%s", answer)
			}
			call := choice.Message.ToolCalls[0]
			valid(t, call.Function.Name, call.Function.Arguments)
		}
		return c
	}
	for _, seed := range testkit.Some([]int{0, 1, 2, 3, 4, 5}) {
		ask(fmt.Sprintf(`%s,"seed":%d,"tool_choice":"required","n":3}`, chat, seed))
	}
	for name := range tools {
		c := ask(chat + `,"seed":7,"tool_choice":{"type":"function","function":{"name":"` + name + `"}}}`)
		if got := c.Choices[0].Message.ToolCalls[0].Function.Name; got != name {
			t.Errorf("%s was to be called, and not %s", name, got)
		}
	}
	whole := ask(chat + `,"seed":3,"tool_choice":"required"}`).Choices[0].Message.ToolCalls[0]
	_, stream := d.post(t, "/v1/chat/completions", chat+`,"seed":3,"tool_choice":"required","stream":true}`)
	name, arguments := joined(t, stream)
	if name != whole.Function.Name || arguments != whole.Function.Arguments {
		t.Errorf("a stream calls %s with %s, the whole %s with %s", name, arguments, whole.Function.Name, whole.Function.Arguments)
	}
}

// joined is what the events of a chat call.
func joined(t testing.TB, stream string) (name, arguments string) {
	t.Helper()
	for _, line := range strings.Split(stream, "\n") {
		data, is := strings.CutPrefix(line, "data: {")
		if !is {
			continue
		}
		var e struct {
			Choices []struct {
				Delta struct {
					ToolCalls []struct {
						Index    int
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+data), &e); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Choices {
			for _, call := range c.Delta.ToolCalls {
				name, arguments = name+call.Function.Name, arguments+call.Function.Arguments
			}
		}
	}
	return name, arguments
}

// The other APIs' calls are the same.
func TestForcedCallsElsewhere(t *testing.T) {
	t.Parallel()
	d := openOf(t, clustertest.Demo(t), clustertest.Context(256))
	_, body := d.post(t, "/v1/messages", `{"model":"demo","max_tokens":200,"temperature":1,"messages":[{"role":"user","content":"Hi"}],"tool_choice":{"type":"any"},`+described("input_schema", true)+"}")
	var m struct {
		Content []struct {
			Type, Name string
			Input      json.RawMessage
		}
		StopReason string `json:"stop_reason"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Content) != 1 || m.Content[0].Type != "tool_use" || m.StopReason != "tool_use" {
		t.Fatalf("%s", body)
	}
	valid(t, m.Content[0].Name, string(m.Content[0].Input))
	_, body = d.post(t, "/v1/responses", `{"model":"demo","temperature":1,"input":"Hi","tool_choice":{"type":"function","name":"tree"},`+described("parameters", true)+"}")
	var r struct {
		Status string
		Output []struct{ Type, Name, Arguments string }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || r.Status != "completed" || len(r.Output) != 1 || r.Output[0].Type != "function_call" || r.Output[0].Name != "tree" {
		t.Fatalf("%s", body)
	}
	valid(t, "tree", r.Output[0].Arguments)
	if status, body := d.post(t, "/v1/chat/completions", `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"not":{}}}}]}`); status != 400 || !strings.Contains(body, `"param":"tools"`) {
		t.Errorf("%d %s", status, body)
	}
}
