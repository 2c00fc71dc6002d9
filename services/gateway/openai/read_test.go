package openai

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a chat says of tools goes to the chat template as it is, arguments as the values that
// they are.
func TestReadTools(t *testing.T) {
	a, err := ReadChat(t.Context(), []byte(`{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"reasoning_effort":"low","messages":[
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},
		{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	p := a.Prompts[0]
	if p.Tools != `[{"type":"function","function":{"name":"f"}}]` || p.ChatTemplateKwargs != `{"reasoning_effort":"low"}` {
		t.Errorf("%v", p)
	}
	if m := p.Messages[0]; m.ToolCalls != `[{"function":{"arguments":{"b":1,"a":2},"name":"f"},"id":"1","type":"function"}]` || m.Content != nil {
		t.Errorf("%v", m)
	}
	if m := p.Messages[1]; m.GetContent() != "ab" || m.ToolCallId != "1" {
		t.Errorf("%v", m)
	}
	if a, err := ReadChat(t.Context(), []byte(`{"model":"m","tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"x"}]}`)); err != nil || a.Prompts[0].Tools != "" {
		t.Errorf("%v %v", a, err)
	}
}

func TestReadPrompts(t *testing.T) {
	for prompt, want := range map[string]int{`"a"`: 1, `["a","b"]`: 2, `[1,2,3]`: 1, `[[1],[2,3]]`: 2, `""`: 1, `[]`: 0, `{}`: 0, `[1,"a"]`: 0, `[-1]`: 0, `null`: 0, `[4294967296]`: 0} {
		a, err := ReadCompletion(t.Context(), []byte(`{"model":"m","prompt":`+prompt+`}`))
		if (err == nil) != (want > 0) || err == nil && len(a.Prompts) != want {
			t.Errorf("%s: %v %v", prompt, a, err)
		}
	}
}

func TestSeeds(t *testing.T) {
	p := &pb.Prompt{}
	for text, want := range map[string]uint32{"5": 5, "4294967301": 4, "-1": 0, "18446744073709551615": 0, "9223372036854775808": 1 << 31} {
		a, err := ReadCompletion(t.Context(), []byte(`{"model":"m","prompt":"x","seed":`+text+`}`))
		if err != nil || a.Prompts[0].GetSeed() != want {
			t.Errorf("%s: %v %v", text, a, err)
		}
		p = a.Prompts[0]
	}
	if SeedOf(p.GetSeed(), 0) != p.GetSeed() || SeedOf(5, 1) == SeedOf(5, 2) {
		t.Error("seeds of several answers")
	}
}

// Fields that the services sample by go to them as they are.
func TestReadSampling(t *testing.T) {
	a, err := ReadChat(t.Context(), []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"presence_penalty":1,"frequency_penalty":-0.5,"min_p":0.1,"min_tokens":3,"logit_bias":{"5":-100}}`))
	if err != nil {
		t.Fatal(err)
	}
	p := a.Prompts[0]
	if p.GetPresencePenalty() != 1 || p.GetFrequencyPenalty() != -0.5 || p.GetMinP() != 0.1 || p.GetMinTokens() != 3 || p.LogitBias[5] != -100 {
		t.Errorf("%v", p)
	}
	for _, bias := range []string{`{"x":1}`, `{"-1":1}`, `{"1":"a"}`, `[1]`} {
		if _, err := ReadChat(t.Context(), []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"logit_bias":`+bias+`}`)); err == nil {
			t.Errorf("%s is taken", bias)
		}
	}
}
