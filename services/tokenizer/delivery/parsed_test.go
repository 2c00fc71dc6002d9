package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/calls"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// words is a Detokenizer of a vocabulary of words, some of which are special.
type words []string

func (w words) Push(id uint32) string {
	if strings.HasPrefix(w[id], "<") {
		return ""
	}
	return w[id]
}
func (words) Flush() string          { return "" }
func (words) Piece(id uint32) []byte { return nil }

// vocabulary are the words of a text between bars.
func vocabulary(text string) (w words, records []*pb.Record) {
	for i, word := range strings.Split(text, "|") {
		w = append(w, word)
		records = append(records, &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: int32(i), Id: uint32(i)}}})
	}
	return w, records
}

func parsed(accept *pb.Accept, text string) (chunks []*pb.Chunk) {
	w, records := vocabulary(text)
	a := newAnswer("r", accept, w)
	a.parseAs(calls.Find(nil, func(token string) (uint32, bool) {
		for i, word := range w {
			if word == token {
				return uint32(i), true
			}
		}
		return 0, false
	}))
	for _, r := range append(records, terminal("stop")) {
		if c := a.push(r); c != nil {
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// written are the chunks that say anything, as they are to be.
func written(chunks []*pb.Chunk) (out []string) {
	for _, c := range chunks {
		line := fmt.Sprintf("%d %q", c.Index, c.Text)
		if p := c.Parsed; p != nil {
			if p.ReasoningContent != "" {
				line += fmt.Sprintf(" thinks %q", p.ReasoningContent)
			}
			for _, t := range p.ToolCalls {
				line += fmt.Sprintf(" %d:%s(%s)", t.Index, t.Name, t.Arguments)
			}
		}
		if c.FinishReason != "" {
			line += " " + c.FinishReason
		}
		if c.Text != "" || c.Parsed != nil || c.FinishReason != "" {
			out = append(out, line)
		}
	}
	return out
}

const called = `<think>|\n|hm|</think>|\n|So|<tool_call>|{"name":"f",|"arguments":{"a"|:1}|}|</tool_call>|more`

// Thoughts and calls come apart from the text, by tokens that show no text of their own, and with
// pieces of arguments as they come. The same log has the same chunks.
func TestParsed(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		accept     *pb.Accept
		want       []string
	}{
		{"calls", called, &pb.Accept{MaxTokens: 99, Parse: &pb.Parse{Tools: true}}, []string{
			`2 "" thinks "hm"`, `5 "So"`, `8 "" 0:f({"a")`, `9 "" 0:(:1})`, `12 "more"`, `13 "" stop`,
		}},
		{"one call", called, &pb.Accept{MaxTokens: 99, Parse: &pb.Parse{Tools: true, Single: true}}, []string{
			`2 "" thinks "hm"`, `5 "So"`, `8 "" 0:f({"a")`, `9 "" 0:(:1})`, `11 "" stop`,
		}},
		{"no parse", "a|b", &pb.Accept{MaxTokens: 99}, []string{`0 "a"`, `1 "b"`, `2 "" stop`}},
		{"begun", "hm|</think>|So", &pb.Accept{MaxTokens: 99, Parse: &pb.Parse{Begun: "<think>"}}, []string{`0 "" thinks "hm"`, `2 "So"`, `3 "" stop`}},
		{"a stop string", "a|<think>|EN|D|x", &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{}}, []string{`0 "a"`, `1 "<think>"`, `3 "" stop`}},
		{"a stop string that a mark cuts", "EN|<think>|D", &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{}}, []string{`1 "EN<think>"`, `2 "D"`, `3 "" stop`}},
		{"a stop string in a mark", `<tool_call>|{"name":"f",|"arguments":{}|}|</tool_call>`, &pb.Accept{MaxTokens: 99, Stop: []string{"<tool", "call>"}, Parse: &pb.Parse{Tools: true}}, []string{`2 "" 0:f({})`, `5 "" stop`}},
		{"a stop string around a call", `<tool_call>|\n|{"name":"f",|"arguments":{"a":"x\ny"}|}|\n|</tool_call>`, &pb.Accept{MaxTokens: 99, Stop: []string{"\n"}, Parse: &pb.Parse{Tools: true, Forced: true}}, []string{`3 "" 0:f({"a":"x` + "\n" + `y"})`, `7 "" stop`}},
		{"a stop string in arguments", `<tool_call>|{"name":"f",|"arguments":{"a":"END"}|}|</tool_call>|END|x`, &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{Tools: true}}, []string{`2 "" 0:f({"a":"END"})`, `5 "" stop`}},
		{"a stop string in thoughts", `<think>|a END b|</think>|so| END |x`, &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{Tools: true}}, []string{`1 "" thinks "a END b"`, `3 "so"`, `4 " " stop`}},
		{"a stop string behind thoughts", `hm|</think>|EN|D|x`, &pb.Accept{MaxTokens: 99, Stop: []string{"END", "hm"}, Parse: &pb.Parse{Begun: "<think>"}}, []string{`0 "" thinks "hm"`, `3 "" stop`}},
		{"a stop string before a call", `so END|<tool_call>|{"name":"f"}|</tool_call>`, &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{Tools: true}}, []string{`0 "so " stop`}},
		{"a stop string that a call cuts", `EN|<tool_call>|{"name":"f"}|</tool_call>|D`, &pb.Accept{MaxTokens: 99, Stop: []string{"END"}, Parse: &pb.Parse{Tools: true}}, []string{`2 "EN" 0:f({})`, `4 "D"`, `5 "" stop`}},
		{"a stop string of a call's quotes", `<tool_call>|{"name":"f"|}|</tool_call>`, &pb.Accept{MaxTokens: 99, Stop: []string{"\"", "{", "}"}, Parse: &pb.Parse{Tools: true, Forced: true}}, []string{`2 "" 0:f({})`, `4 "" stop`}},
		{"a forced call that was cut", `<tool_call>|{"name"`, &pb.Accept{MaxTokens: 2, Parse: &pb.Parse{Tools: true, Forced: true}}, []string{`1 "" stop`}},
		{"cut", `<tool_call>|{"name"`, &pb.Accept{MaxTokens: 2, Parse: &pb.Parse{Tools: true}}, []string{`1 "<tool_call>{\"name\"" stop`}},
	} {
		text := strings.ReplaceAll(tt.text, `\n`, "\n")
		got := written(parsed(tt.accept, text))
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
		}
	}
	chunks := parsed(&pb.Accept{MaxTokens: 99, Parse: &pb.Parse{Tools: true}}, called)
	if n := chunks[len(chunks)-1].Usage.GetReasoningTokens(); n != 3 {
		t.Errorf("%d tokens of thoughts", n)
	}
}
