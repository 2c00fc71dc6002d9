package edge

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/calls"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// caller is a model with a chat template, whose prompts end as end says.
func caller(end string) Model {
	m := demo()
	m.Calls = calls.Find(nil, func(string) (uint32, bool) { return 0, false })
	m.EncodeChat = func(*pb.Prompt, time.Time, bool) ([]uint32, error) { return []uint32{1, 2}, nil }
	m.DecodeIDs = func([]uint32) string { return end }
	return m
}

func chatting(change func(*pb.Prompt)) *pb.Prompt {
	p := &pb.Prompt{Messages: []*pb.ChatMessage{{Role: "user", Content: proto.String("hi")}}, Tools: `[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"name":"g"}]`, Parse: true}
	change(p)
	return p
}

// A call that has to be is a form of the answer, which an earlier release does not know.
func TestForcedCalls(t *testing.T) {
	for choice, forms := range map[string]int{"": 0, "auto": 0, "required": 2, `{"type":"function","function":{"name":"g"}}`: 1} {
		r, err := caller("").Resolve(chatting(func(p *pb.Prompt) { p.ToolChoice = choice }), now, 1)
		if err != nil || len(r.Sequence.Calls) != forms || !r.Parse.Tools || r.Parse.Single || r.Parse.Begun != "" {
			t.Errorf("%q: %v, %v", choice, r, err)
			continue
		}
		if level := SamplingOf(r.Sequence); (level == 3) != (forms > 0) || Keeps(r.Sequence) != (forms > 0) {
			t.Errorf("%q: level %d", choice, level)
		}
		if forms == 1 && !strings.Contains(SpecOf(r.Sequence).Calls[0].Before, `"g"`) {
			t.Errorf("%v", r.Sequence.Calls)
		}
	}
	r, err := caller("…<think>\n").Resolve(chatting(func(p *pb.Prompt) { p.ToolChoice, p.ParallelToolCalls = "required", proto.Bool(false) }), now, 1)
	if err != nil || r.Parse.Begun != "<think>" || !r.Parse.Single || !strings.HasPrefix(string(r.Sequence.Calls[0].Before), "</think>") {
		t.Errorf("%v, %v", r, err)
	}
	if r, err = caller("").Resolve(chatting(func(p *pb.Prompt) { p.Parse = false }), now, 1); err != nil || r.Parse != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestForcedCallsRefused(t *testing.T) {
	for says, change := range map[string]func(*pb.Prompt){
		`tool_choice is "auto"`: func(p *pb.Prompt) { p.ToolChoice = "any" },
		"none of tools":         func(p *pb.Prompt) { p.ToolChoice = `{"type":"function","function":{"name":"h"}}` },
		"there are no tools":    func(p *pb.Prompt) { p.ToolChoice, p.Tools = "required", "" },
		"tools: json":           func(p *pb.Prompt) { p.ToolChoice, p.Tools = "required", "{}" },
		"that needs messages":   func(p *pb.Prompt) { p.ToolChoice, p.Messages, p.Tools, p.Text = "required", nil, "", "x" },
		"leave one out":         func(p *pb.Prompt) { p.ToolChoice, p.Grammar = "required", &pb.Grammar{JsonObject: true} },
		"leave out ignore_eos":  func(p *pb.Prompt) { p.ToolChoice, p.IgnoreEos = "required", true },
		"tools: /properties/a: not": func(p *pb.Prompt) {
			p.ToolChoice, p.Tools = "required", `[{"name":"f","parameters":{"properties":{"a":{"not":{"minLength":1}}}}}]`
		},
		"a schema is an object": func(p *pb.Prompt) { p.ToolChoice, p.Tools = "required", `[{"name":"f","parameters":"x"}]` },
	} {
		_, err := caller("").Resolve(chatting(change), now, 1)
		check(t, err, BadRequest, says)
	}
}

// A choice may stand in a JSON body as it is.
func TestToolChoiceInJSON(t *testing.T) {
	const choice = `{"type":"function", "function":{"name":"f"}}`
	p, _, err := DecodePrompt(nil, []byte(`{"text":"hi","tool_choice":`+choice+`,"parallel_tool_calls":false}`), false)
	if err != nil || p.ToolChoice != choice || p.GetParallelToolCalls() || p.ParallelToolCalls == nil {
		t.Errorf("%v, %v", p, err)
	}
}
