package calls

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// templates are parts of chat templates that tell families apart.
var templates = map[string]string{
	"hermes": callOpen, "mistral": listOpen, "harmony": channelMark + "analysis", "deepseek": deepseekMarks.open, "kimi": kimiMarks.open, "llama": "<|python_start|>",
}

type written string

func (w written) Writes(text string) bool { return strings.Contains(string(w), text) }

// of is a family's syntax; with tokens, its marks are tokens of the vocabulary.
func of(t testing.TB, name string, tokens bool) *Syntax {
	t.Helper()
	n := uint32(0)
	s := Find(written(templates[name]), func(string) (uint32, bool) { n++; return n, tokens })
	if s.Name() != name {
		t.Fatalf("the syntax of %s is %s", name, s.Name())
	}
	return s
}

// told is what was read, written so that it can be compared.
type told struct {
	content, reasoning strings.Builder
	calls              []Call
}

func (o *told) add(s Said) {
	o.content.WriteString(s.Content)
	o.reasoning.WriteString(s.Reasoning)
	for _, c := range s.Calls {
		if n := len(o.calls); n > 0 && o.calls[n-1].Index == c.Index {
			o.calls[n-1].Arguments += c.Arguments
			continue
		}
		o.calls = append(o.calls, c)
	}
}

func (o *told) String() string {
	out := fmt.Sprintf("%q %q", &o.content, &o.reasoning)
	for _, c := range o.calls {
		out += fmt.Sprintf(" %d:%s(%s)", c.Index, c.Name, c.Arguments)
	}
	return out
}

// read reads pieces of an answer.
func read(s *Syntax, o Options, pieces ...string) string { return readTo(s, o, false, pieces...) }

// readTo is read for an answer that may be cut at its end.
func readTo(s *Syntax, o Options, cut bool, pieces ...string) string {
	r, out := s.Read(o), &told{}
	for _, p := range pieces {
		feed(r, s, p)
		out.add(r.Take())
	}
	r.End(cut)
	out.add(r.Take())
	return out.String()
}

// feed gives marks that are tokens as such.
func feed(r *Reader, s *Syntax, text string) {
	if len(s.ids) == 0 {
		r.Text(text)
		return
	}
	for text != "" {
		before, mark, after := cut(text, s.every())
		r.Text(before)
		if mark != "" {
			r.Mark(mark)
		}
		text = after
	}
}

var both = Options{Request: "r", Tools: true}

var answers = []struct {
	family, text, want string
}{
	{"hermes", "Hello", `"Hello" ""`},
	{"hermes", " \n", `" \n" ""`},
	{"hermes", " Hello ", `" Hello " ""`},
	{"hermes", "a < b <tool", `"a < b <tool" ""`},
	{"hermes", "\n<think>\nhm\n\nhm\n</think>\n\nHello", `"Hello" "hm\n\nhm"`},
	{"hermes", "<think>cut ", `"" "cut"`},
	{"hermes", "no <think>x</think>", `"no <think>x</think>" ""`},
	{"hermes", "<think><tool_call>x</think>y", `"y" "<tool_call>x"`},
	{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"<\"}}\n</tool_call>", `"" "" 0:f({"a": "}\"<"})`},
	{"hermes", "x\n<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\",\"parameters\":[1]}</tool_call>\n", `"x\n" "" 0:f({}) 1:g([1])`},
	{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n y", `"\n y" "" 0:f({})`},
	{"hermes", "<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>", `"" "" 0:f({"a":1})`},
	{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", `"" "" 0:f({"a":1})`},
	{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>", `"" "" 0:f({})`},
	{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", `"" "" 0:f({"a":)`},
	{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}} so </tool_call>", `"so " "" 0:f({})`},
	{"hermes", "<tool_call>{\"name\":", `"<tool_call>{\"name\":" ""`},
	{"hermes", "<tool_call>no</tool_call>", `"<tool_call>no</tool_call>" ""`},
	{"hermes", "<tool_call>{\"name\":5,\"arguments\":{}}</tool_call>.", `"<tool_call>{\"name\":5,\"arguments\":{}}</tool_call>." ""`},
	{"mistral", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"arguments\": {}}] so", `" so" "" 0:f({"a": [1]}) 1:g({})`},
	{"mistral", "[TOOL_CALLS]f[ARGS]{\"a\":1}[TOOL_CALLS]g{}", `"" "" 0:f({"a":1}) 1:g({})`},
	{"mistral", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", `"" "" 0:f({})`},
	{"mistral", "[TOOL_CALLS]{\"name\":\"f\",\"arguments\":{}}x", `"x" "" 0:f({})`},
	{"mistral", "[TOOL_CALLS] [5, 6]", `"[TOOL_CALLS] [5, 6]" ""`},
	{"mistral", "[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{}}, {\"x\":1}]", `"{\"x\":1}]" "" 0:f({})`},
	{"mistral", "[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{\"a", `"" "" 0:f({"a)`},
	{"mistral", "[TOOL_CALLS]what is it", `"[TOOL_CALLS]what is it" ""`},
	{"mistral", "[TOOL_CALLS]what is{}", `"[TOOL_CALLS]what is{}" ""`},
	{"mistral", "[TOOL", `"[TOOL" ""`},
	{"deepseek", "So:<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", `"So:" "" 0:f({"a":1}) 1:g({})`},
	{"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", `"" "" 0:f({"a":1})`},
	{"deepseek", "<think>hm</think>ok", `"ok" "hm"`},
	{"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>x", `"<｜tool▁call▁begin｜>f g<｜tool▁sep｜>{}<｜tool▁call▁end｜>x" ""`},
	{"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁call▁end｜>", `"<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>" ""`},
	{"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":", `"" "" 0:f({"a":)`},
	{"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|><|tool_calls_section_end|>", `"" "" 0:f({"a":1})`},
	{"harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>", `"Hello" "hm"`},
	{"harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", `"" "hm" 0:f({"a":1})`},
	{"harmony", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>", `"" "" 0:f({})`},
	{"harmony", "<|channel|>commentary to=functions.f<|message|><|call|>", `"" "" 0:f({})`},
	{"harmony", "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>cut", `"First.cut" ""`},
	{"harmony", "Hello", `"Hello" ""`},
	{"harmony", " to", `" to" ""`},
	{"llama", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", `"" "" 0:f({"a": 1})`},
	{"llama", "<|python_start|><|python_end|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", `"" "" 0:f({}) 1:g({})`},
	{"llama", "{\"answer\": 5} so", `"{\"answer\": 5} so" ""`},
	{"llama", " {\"na", `" {\"na" ""`},
	{"llama", "Hello {\"name\": \"f\", \"parameters\": {}}", `"Hello {\"name\": \"f\", \"parameters\": {}}" ""`},
}

// marksInStrings are values that have what ends calls elsewhere.
var marksInStrings = []string{
	`{"a":"x</tool_call>y"}`, `{"</tool_call>":1}`, `{"a":["<tool_call>","\\\"</tool_call>"]}`, `{"a":"<think>b</think>c"}`, `{"a":"\"","<think>":"</tool_call>"}`, `{"</think>":{"b":"<think>"}}`,
	`{"a":"x<｜tool▁call▁end｜>y"}`, `{"<｜tool▁calls▁end｜>":"<｜tool▁call▁begin｜>"}`, `{"a":"<｜tool▁sep｜>"}`, `{"a":"<|tool_call_end|>"}`, `{"<|tool_calls_section_end|>":["<|tool_call_begin|>"]}`,
	`{"a":"x<|call|>y"}`, `{"<|end|>":"<|start|>assistant<|channel|>final<|message|>"}`, `{"a":"<|return|>"}`, `{"a":"[TOOL_CALLS][ARGS]","[TOOL_CALLS]":"[CALL_ID]"}`,
	`{"a":"<|python_tag|>","<|eom|>":"<|python_end|>"}`, `{"a":"}]\\","b":"</tool"}`,
}

// A mark within a string of a call's arguments is a part of it, in each family, with marks of both
// kinds, and wherever the answer is cut.
func TestMarksInStrings(t *testing.T) {
	for name := range templates {
		for _, tokens := range []bool{false, true} {
			s := of(t, name, tokens)
			for _, arguments := range marksInStrings {
				checkWhole(t, s, arguments)
			}
		}
	}
}

// checkWhole reads an answer that a form allows, whole and cut into two.
func checkWhole(t *testing.T, s *Syntax, arguments string) {
	t.Helper()
	forms, err := s.Forms([]Tool{{Name: "f"}}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	answer := strings.ReplaceAll(string(forms[0].Before)+arguments+string(forms[0].After), noText, "")
	want := fmt.Sprintf(`"" "" 0:f(%s)`, arguments)
	for i := range answer {
		if len(s.ids) > 0 && i > 0 {
			return // marks that are tokens are whole
		}
		if got := read(s, both, answer[:i], answer[i:]); got != want {
			t.Fatalf("%s, %q cut at %d:\ngot  %s\nwant %s", s.Name(), answer, i, got, want)
		}
	}
}

// The same of any arguments whose strings are made of marks.
func TestMarksInAnyStrings(t *testing.T) {
	for name := range templates {
		s := of(t, name, false)
		pieces := append(strings.Split("ab\"\\{}[],:é\n", ""), append(s.every(), "</", "</tool", "[TOOL", "<|")...)
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 5).Draw(t, "pieces"), "")
		})
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			arguments, err := json.Marshal(map[string]any{text.Draw(t, "key"): text.Draw(t, "value"), "b": []any{text.Draw(t, "item"), 1, map[string]any{text.Draw(t, "inner"): nil}}})
			if err != nil {
				t.Fatal(err)
			}
			compact := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(arguments))
			forms, err := s.Forms([]Tool{{Name: "f"}}, "", "")
			if err != nil {
				t.Fatal(err)
			}
			answer := string(forms[0].Before) + compact + string(forms[0].After)
			at := rapid.IntRange(0, len(answer)).Draw(t, "at")
			if got, want := read(s, both, answer[:at], answer[at:]), fmt.Sprintf(`"" "" 0:f(%s)`, compact); got != want {
				t.Fatalf("%q cut at %d:\ngot  %s\nwant %s", answer, at, got, want)
			}
		}))
	}
}

// Names and other members beside the arguments may have marks in them as well.
func TestMarksBesideArguments(t *testing.T) {
	for _, tt := range []struct{ family, text, want string }{
		{"hermes", `<tool_call>{"arguments":{"a":"<think></tool_call>"},"name":"f"}</tool_call>`, `"" "" 0:f({"a":"<think></tool_call>"})`},
		{"hermes", `<tool_call>{"id":"</tool_call>","name":"f","arguments":{}}</tool_call>so`, `"so" "" 0:f({})`},
		{"mistral", `[TOOL_CALLS] [{"arguments":{"a":"<think>[TOOL_CALLS]"},"name":"f"}]`, `"" "" 0:f({"a":"<think>[TOOL_CALLS]"})`},
		{"llama", `{"parameters":{"a":"<think><|python_tag|>"},"name":"f"}`, `"" "" 0:f({"a":"<think><|python_tag|>"})`},
		{"llama", `{"<|eom|>":1,"name":"f","parameters":{}}`, `"" "" 0:f({})`},
		{"harmony", `<|channel|>commentary to=functions.f<|message|>{"a":"<|call|>"} so<|call|>`, `"so" "" 0:f({"a":"<|call|>"})`},
	} {
		for _, tokens := range []bool{false, true} {
			if got := read(of(t, tt.family, tokens), both, tt.text); got != tt.want {
				t.Errorf("%s, %q, tokens %v:\ngot  %s\nwant %s", tt.family, tt.text, tokens, got, tt.want)
			}
		}
	}
}

// What is left of a mark at the end of an answer is no content where a mark had to come.
func TestRestsOfMarks(t *testing.T) {
	for _, tt := range []struct{ family, call, mark, want string }{
		{"hermes", `<tool_call>{"name":"f","arguments":{}}`, callClose, `"" "" 0:f({})`},
		{"hermes", `<tool_call>{"name":"f","arguments":{}}</tool_call>`, callOpen, `"" "" 0:f({})`},
		{"hermes", `<tool_call>{"name":"f","arguments":{}}</tool_call>` + "\n", callOpen, `"" "" 0:f({})`},
		{"hermes", `<think>hm`, thinkClose, `"" "hm"`},
		{"mistral", `[TOOL_CALLS] [{"name":"f","arguments":{}}]`, listOpen, `"" "" 0:f({})`},
		{"mistral", `[TOOL_CALLS]f[ARGS]{}`, listOpen, `"" "" 0:f({})`},
		{"deepseek", deepseekMarks.open + deepseekMarks.callOpen + "f" + deepseekMarks.split + "{}", deepseekMarks.callClose, `"" "" 0:f({})`},
		{"deepseek", deepseekMarks.open + deepseekMarks.callOpen + "f" + deepseekMarks.split + "{}" + deepseekMarks.callClose, deepseekMarks.close, `"" "" 0:f({})`},
		{"deepseek", "So" + deepseekMarks.open, deepseekMarks.callOpen, `"So" ""`},
		{"kimi", kimiMarks.open + kimiMarks.callOpen + "functions.f:0" + kimiMarks.split + "{}", kimiMarks.callClose, `"" "" 0:f({})`},
		{"kimi", kimiMarks.open + kimiMarks.callOpen + "functions.f:0" + kimiMarks.split + "{}" + kimiMarks.callClose, kimiMarks.close, `"" "" 0:f({})`},
		{"harmony", "<|channel|>commentary to=functions.f<|message|>{}", callMark, `"" "" 0:f({})`},
		{"harmony", "<|channel|>final<|message|>So", returnMark, `"So" ""`},
	} {
		s := of(t, tt.family, false)
		for n := 2; n < len(tt.mark); n++ {
			if got := read(s, both, tt.call+tt.mark[:n]); got != tt.want {
				t.Errorf("%s, %q behind %q:\ngot  %s\nwant %s", tt.family, tt.mark[:n], tt.call, got, tt.want)
			}
		}
	}
}

// The beginning of a call is no content where the answer is cut, in each family, however it is cut,
// and what was told before stays.
func TestCutBeforeCalls(t *testing.T) {
	if got, want := readTo(of(t, "llama", true), both, true, `{"answer": 5`), `"{\"answer\": 5" ""`; got != want {
		t.Errorf("JSON that was cut, and may be text: %s, want %s", got, want)
	}
	for name := range templates {
		for _, tokens := range []bool{false, true} {
			s := of(t, name, tokens)
			forms, err := s.Forms([]Tool{{Name: "f"}}, "", "")
			if err != nil {
				t.Fatal(err)
			}
			begin := strings.ReplaceAll(string(forms[0].Before), noText, "")
			_, first, _ := cut(begin, s.every())
			if first == "" || name == "harmony" {
				continue // nothing tells it from text, or a header is no content in any case
			}
			for n := len(first); n <= len(begin); n++ {
				if got := readTo(s, both, true, "So: "+begin[:n]); got != `"So: " ""` && got != `"So: " "" 0:f()` && (!tokens || overlap(begin[:n], s.every()) == 0) {
					t.Errorf("%s, marks are tokens: %v, %q: %s", name, tokens, begin[:n], got)
				}
			}
		}
	}
}

// Answers are told apart in the same way wherever they are cut, with marks of text and of tokens.
func TestRead(t *testing.T) {
	for _, tt := range answers {
		s := of(t, tt.family, false)
		if got := read(s, both, tt.text); got != tt.want {
			t.Errorf("%s, %q:\ngot  %s\nwant %s", tt.family, tt.text, got, tt.want)
		}
		if got := read(s, both, strings.Split(tt.text, "")...); got != tt.want {
			t.Errorf("%s, %q in characters:\ngot  %s\nwant %s", tt.family, tt.text, got, tt.want)
		}
		for i := range tt.text {
			if got := read(s, both, tt.text[:i], tt.text[i:]); got != tt.want {
				t.Errorf("%s, %q cut at %d:\ngot  %s\nwant %s", tt.family, tt.text, i, got, tt.want)
			}
		}
		if got := read(of(t, tt.family, true), both, tt.text); got != tt.want {
			t.Errorf("%s, %q in tokens:\ngot  %s\nwant %s", tt.family, tt.text, got, tt.want)
		}
	}
}

// What the prompt has begun is a part of the answer, text that looks like a token is none, and
// without tools there are no calls.
func TestOptions(t *testing.T) {
	s := of(t, "hermes", false)
	if got := read(s, Options{Begun: thinkOpen}, "\nhm</think>\nHello"); got != `"Hello" "hm"` {
		t.Error(got)
	}
	if got := read(s, Options{}, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"); got != `"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>" ""` {
		t.Error(got)
	}
	tokens := of(t, "hermes", true)
	r := tokens.Read(both)
	r.Text("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>")
	if r.End(false); len(r.Take().Calls) != 0 {
		t.Error("text counts where there is a token")
	}
	r = s.Read(Options{Tools: true, Single: true})
	if r.Text("<tool_call>{\"name\":\"f\",\"arguments\":{}}"); r.Over() {
		t.Error("a call is over before its end")
	}
	if r.Text("</tool_call>"); !r.Over() {
		t.Error("one call is all that was asked for")
	}
	if s.Begun("a<think>\n") != thinkOpen || s.Begun("<think>\n\n</think>\n\n") != "" || of(t, "harmony", true).Begun("<think>") != "" {
		t.Error("what a prompt begins")
	}
}

// Ids are the same in each telling, differ between calls, and fit Mistral's templates.
func TestIDs(t *testing.T) {
	ids := map[string]bool{}
	for _, tt := range []struct{ family, text string }{
		{"hermes", `<tool_call>{"name":"f"}</tool_call><tool_call>{"name":"f"}</tool_call>`}, {"mistral", `[TOOL_CALLS][{"name":"f"},{"name":"f"}]`},
	} {
		r := of(t, tt.family, false).Read(both)
		r.Text(tt.text)
		for _, c := range r.Take().Calls {
			if ids[c.ID] || tt.family == "mistral" && len(c.ID) != 9 || tt.family == "hermes" && !strings.HasPrefix(c.ID, "call_") {
				t.Errorf("%s: %q", tt.family, c.ID)
			}
			ids[c.ID] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("%v", ids)
	}
	r := of(t, "kimi", false).Read(both)
	r.Text("<|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}")
	if c := r.Take().Calls; len(c) != 1 || c[0].ID != "functions.f:3" {
		t.Errorf("%v", c)
	}
}

// pieces draws a text of marks, JSON and what may be mistaken for them.
func pieces(t *rapid.T, s *Syntax) (out []string) {
	parts := append([]string{`{"name": "f", "arguments": {"a": "b"}}`, `{"name":"g"}`, "{}", "[", "]", ", ", "\n", " ", "f", "Hello", `"`, "{", "}", "to=functions.f", "analysis", "```", "<", "[TOOL", "<|"}, s.every()...)
	for range rapid.IntRange(0, 12).Draw(t, "parts") {
		out = append(out, rapid.SampledFrom(parts).Draw(t, "part"))
	}
	return out
}

func TestCutsChangeNothing(t *testing.T) {
	for name := range templates {
		s := of(t, name, false)
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			parts := pieces(t, s)
			text := strings.Join(parts, "")
			o := Options{Tools: rapid.Bool().Draw(t, "tools")}
			want := read(s, o, text)
			if got := read(s, o, parts...); got != want {
				t.Fatalf("%q:\nin parts %s\nwhole    %s", parts, got, want)
			}
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			if got := read(s, o, text[:at], text[at:]); got != want {
				t.Fatalf("%q cut at %d:\nin parts %s\nwhole    %s", text, at, got, want)
			}
		}))
	}
}

// FuzzRead reads any text, at once and in bytes: no family's reader fails, tells more than there
// was, or depends on where the text is cut.
func FuzzRead(f *testing.F) {
	for _, tt := range answers {
		f.Add(tt.text, true)
	}
	f.Fuzz(func(t *testing.T, text string, tools bool) {
		for name := range templates {
			s, o := of(t, name, false), Options{Tools: tools}
			want := read(s, o, text)
			all := make([]string, 0, len(text))
			for i := range len(text) {
				all = append(all, text[i:i+1])
			}
			if got := read(s, o, all...); got != want {
				t.Fatalf("%s, %q:\nin bytes %s\nwhole    %s", name, text, got, want)
			}
		}
	})
}

func TestTools(t *testing.T) {
	tools, err := Tools(`[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"name":"g"}]`)
	if err != nil || len(tools) != 2 || tools[0].Name != "f" || string(tools[0].Parameters) != `{"type":"object"}` || tools[1].Name != "g" {
		t.Errorf("%v, %v", tools, err)
	}
	if _, err := Tools(`{}`); err == nil {
		t.Error("an object is no list")
	}
	for text, want := range map[string]Choice{
		"": {}, "auto": {}, "required": {Forced: true}, `{"type":"function","function":{"name":"f"}}`: {true, "f"},
	} {
		if got, err := ReadChoice(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"none", "{", `{"type":"function"}`, `{"type":"custom","function":{"name":"f"}}`} {
		if _, err := ReadChoice(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// What a form holds an answer to is read as a call, in each family, with marks of both kinds.
func TestForms(t *testing.T) {
	for name := range templates {
		for _, tokens := range []bool{false, true} {
			s := of(t, name, tokens)
			forms, err := s.Forms([]Tool{{Name: "f"}, {Name: "g"}}, "g", "")
			if err != nil || len(forms) != 1 {
				t.Fatalf("%s: %v, %v", name, forms, err)
			}
			answer := strings.ReplaceAll(string(forms[0].Before)+`{"a":1}`+string(forms[0].After), noText, "")
			if got := read(s, both, answer); got != `"" "" 0:g({"a":1})` {
				t.Errorf("%s, %q: %s", name, answer, got)
			}
			if tokens && name != "llama" && !strings.HasPrefix(string(forms[0].Before), noText) {
				t.Errorf("%s begins with text: %q", name, forms[0].Before)
			}
		}
	}
	s := of(t, "hermes", false)
	for _, tt := range []struct {
		tools []Tool
		only  string
		want  string
	}{{nil, "", "there are no tools"}, {[]Tool{{Name: "f"}}, "g", "none of tools"}, {[]Tool{{Name: "a b"}}, "", "is named by"}} {
		if _, err := s.Forms(tt.tools, tt.only, ""); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	fenced := Find(written(deepseekMarks.open+"```json"), func(string) (uint32, bool) { return 0, false })
	forms, err := fenced.Forms([]Tool{{Name: "f"}}, "", thinkOpen)
	if err != nil || !strings.HasPrefix(string(forms[0].Before), "</think>\n\n<｜tool") {
		t.Fatalf("%v, %v", forms, err)
	}
	if got := read(fenced, Options{Tools: true, Begun: thinkOpen}, string(forms[0].Before)+"{}"+string(forms[0].After)); got != `"" "" 0:f({})` {
		t.Error(got)
	}
}

// Special tokens have bytes that no other token and no text has.
func TestBytes(t *testing.T) {
	s := Find(written(callOpen), func(token string) (uint32, bool) { return 7, token == callOpen })
	for id, want := range map[uint32]string{7: noText + callOpen, 8: "a", 9: ""} {
		text := map[uint32]string{7: "", 8: "a", 9: noText}[id]
		if got := s.Bytes(id, []byte(text)); string(got) != want {
			t.Errorf("token %d: %q", id, got)
		}
	}
}

// Marks of thoughts at a prompt's end and at its answer's beginning are one.
func TestThoughtsBegunTwice(t *testing.T) {
	for _, tokens := range []bool{true, false} {
		s := of(t, "hermes", tokens)
		for _, tt := range []struct{ begun, answer, want string }{
			{thinkOpen, "<think>\nhm</think>\nHello", `"Hello" "hm"`},
			{thinkOpen, "\n<think>\n\nhm</think>Hello", `"Hello" "hm"`},
			{thinkOpen, "<think></think>Hello", `"Hello" ""`},
			{thinkOpen, "<think>", `"" ""`},
			{thinkOpen, "hm <think> hm</think>Hello", `"Hello" "hm <think> hm"`},
			{"", "<think><think>hm</think>Hello", `"Hello" "hm"`},
			{"", "</think>\n\nHello", `"Hello" ""`},
			{"", "\n</think>Hello", `"Hello" ""`},
			{"", "</think><think>hm</think>Hello", `"Hello" "hm"`},
			{"", "Hello </think>", `"Hello </think>" ""`},
		} {
			if got := read(s, Options{Begun: tt.begun}, tt.answer); got != tt.want {
				t.Errorf("behind %q, %q (marks are tokens: %v) is %s, want %s", tt.begun, tt.answer, tokens, got, tt.want)
			}
		}
	}
}
