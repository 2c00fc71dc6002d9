package gateway

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/responses"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// readings are the readers of all routes.
var readings = []struct {
	route *fields.Route
	read  func(context.Context, []byte) (any, error)
}{
	{fields.Chat, anyOf(openai.ReadChat)}, {fields.Completion, anyOf(openai.ReadCompletion)}, {fields.Responses, anyOf(responses.Read)},
	{fields.Messages, anyOf(anthropic.Read)}, {fields.CountTokens, anyOf(anthropic.ReadCount)}, {fields.Tokenize, anyOf(openai.ReadTokenize)},
	{fields.Detokenize, anyOf(openai.ReadDetokenize)},
}

func anyOf[A any](read reader[A]) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, body []byte) (any, error) { return read(ctx, body) }
}

// held is how many bytes what get returns has.
func held(get func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	made := get()
	for range 2 { // pools keep what they have until the second time
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(made)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// listed is so many of one value.
func listed(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }

const (
	chatOf, userOf = `{"model":"demo","max_tokens":4,"messages":[{"role":"user","content":"a"}]`, `{"model":"demo","max_tokens":4,"messages":[{"role":"user","content":`
	chatPath       = "/v1/chat/completions"
)

// Bodies of many small things, or of something large where something short is meant, are refused
// for a few bytes of memory for each of theirs.
func TestBodiesAreMeasured(t *testing.T) {
	const (
		large = 3900 << 10
		many  = large / 3
	)
	text := strings.Repeat("x", large)
	for _, tc := range []struct{ name, path, body, says string }{
		{"parts", chatPath, userOf + "[" + listed("{}", many) + "]}]}", "messages[].content has more than 16384 elements"},
		{"parts of all messages", chatPath, `{"model":"demo","messages":[` + listed(`{"role":"user","content":[`+listed("{}", 1000)+`]}`, 1000) + `]}`, "The body has more than 65536 values"},
		{"messages", "/v1/messages", `{"model":"demo","max_tokens":4,"messages":[` + listed("{}", many) + "]}", "messages has more than 16384 elements"},
		{"results", "/v1/messages", userOf + `[{"type":"tool_result","content":[` + listed("{}", many) + "]}]}]}", "The body has more than 65536 values"},
		{"items", "/v1/responses", `{"model":"demo","input":[` + listed("{}", many) + "]}", "input has more than 16384 elements"},
		{"prompts", "/v1/completions", `{"model":"demo","prompt":[` + listed(`""`, many) + "]}", "prompt has more than 128 elements"},
		{"prompts and stops", "/v1/completions", `{"model":"demo","prompt":[` + listed(`""`, 2000) + `],"stop":[` + listed(`""`, 60000) + "]}", "prompt has more than 128 elements"},
		{"stops", "/v1/completions", `{"model":"demo","prompt":"x","stop":[` + listed(`""`, 60000) + "]}", "stop has more than 16 elements"},
		{"ids of stops", "/v1/completions", `{"model":"demo","prompt":"x","stop_token_ids":[` + listed("1", many) + "]}", "stop_token_ids has more than 1024 numbers"},
		{"lists of ids", "/v1/completions", `{"model":"demo","prompt":[` + listed("[1]", many/2) + "]}", "prompt has more than 128 elements"},
		{"answers to many ids", "/v1/completions", `{"model":"demo","n":128,"prompt":[` + listed("1", many) + "]}", "the request takes"},
		{"answers, each not large", "/v1/completions", `{"model":"demo","n":128,"prompt":"` + text[:1<<20] + `"}`, "the request takes 128 MiB of memory on its way, and one may take 64"},
		{"biases", chatPath, chatOf + `,"n":128,"logit_bias":{` + listed(`"5":1`, 300000) + "}}", "logit_bias has more than 1024 elements"},
		{"tools", chatPath, chatOf + `,"tools":[` + listed(`{"type":"function","function":{"name":"f"}}`, 34000) + "]}", "tools has more than 1024 elements"},
		{"allowed tools", chatPath, chatOf + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[` + listed(`{"type":"function","function":{"name":"f"}}`, 34000) + "]}}}", "tool_choice.allowed_tools.tools has more than 1024 elements"},
		{"calls", chatPath, `{"model":"demo","messages":[{"role":"assistant","tool_calls":[` + listed("{}", many) + "]}]}", "messages[].tool_calls has more than 1024 elements"},
		{"documents", "/tokenize", chatOf + `,"documents":[` + listed("{}", many) + "]}", "documents has more than 1024 elements"},
		{"variables", "/tokenize", chatOf + `,"chat_template_kwargs":{"a":"` + text + `"}}`, "chat_template_kwargs has 3993608 bytes; it may have 65536"},
		{"choices", "/v1/completions", `{"model":"demo","prompt":"x","guided_choice":[` + listed(`""`, many) + "]}", "guided_choice has more than 4096 elements"},
		{"a schema", "/v1/responses", `{"model":"demo","input":"x","text":{"format":{"type":"json_schema","schema":{` + listed(`"a":1`, many/4) + "}}}}", "The body has more than 65536 values"},
		{"a tool's schema", "/v1/messages/count_tokens", userOf + `"x"}],"tools":[{"name":"f","input_schema":{` + listed(`"a":1`, many/4) + "}}]}", "The body has more than 65536 values"},
		{"metadata", "/v1/responses", `{"model":"demo","input":"x","metadata":{` + listed(`"a":"b"`, many/4) + "}}", "metadata has more than 64 elements"},
		{"what else is told", "/v1/responses", `{"model":"demo","input":"x","include":[` + listed(`""`, many) + "]}", "include has more than 64 elements"},
		{"what is refused", "/v1/responses", `{"model":"demo","input":"x","conversation":[` + listed("null", many/4) + "]}", "The body has more than 65536 values"},
		{"what nobody knows", chatPath, `{"model":"demo","unknown":[` + listed("[]", many/4) + "]}", "The body has more than 65536 values"},
		{"fields of one name", chatPath, "{" + listed(`"model":1`, many/8) + "}", "The body has more than 65536 values"},
		{"nesting", chatPath, `{"a":` + strings.Repeat("[", many), "nested more than 200 deep"},
		{"a model's name", chatPath, strings.Replace(chatOf, "demo", text, 1) + "}", "model has 3993600 bytes; it may have 129"},
		{"a model's name, written otherwise", "/v1/messages", strings.Replace(strings.Replace(chatOf, "demo", text, 1), "model", `\u006dodel`, 1) + "}", "model has 3993600 bytes; it may have 129"},
		{"a model's name, as a number", "/tokenize", `{"model":` + strings.Repeat("1", large) + `,"prompt":"x"}`, "model has 3993600 bytes; it may have 129"},
		{"a user's name", "/v1/responses", `{"model":"demo","input":"x","user":"` + text + `"}`, "user has 3993600 bytes; it may have 1024"},
		{"a role", chatPath, `{"model":"demo","messages":[{"role":"` + text + `","content":"x"}]}`, "messages[].role has 3993600 bytes; it may have 64"},
		{"a function's name", "/v1/responses", `{"model":"demo","input":"x","tools":[{"type":"function","name":"` + text + `"}]}`, "tools[].name has 3993600 bytes; it may have 256"},
		{"a field's name", chatPath, `{"` + text + `":1}`, "A field's name has 3993600 bytes; it may have 1024"},
		{"a stop string", "/v1/messages", chatOf + `,"stop_sequences":["` + text + `"]}`, "stop_sequences[] has 3993600 bytes; it may have 1024"},
		{"a regex", chatPath, chatOf + `,"structured_outputs":{"regex":"` + text + `"}}`, "structured_outputs has"},
	} {
		d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.MaxBody, c.MaxStreams = 4<<20, 256 })
		var code int
		var answer string
		took := testkit.Allocated(func() {
			w := ask(d, "POST", tc.path, tc.body)
			code, answer = w.Code, w.Body.String()
		})
		if refused := code == 400 || code == 413; !refused && tc.says != "" || !strings.Contains(answer, tc.says) {
			t.Errorf("%s: %d %.300s", tc.name, code, answer)
		}
		if most := 24*int64(len(tc.body)) + 1<<20; took > most {
			t.Errorf("%s: %d bytes take %d of memory, want at most %d", tc.name, len(tc.body), took, most)
		}
		if d.bodies.Had() != 0 {
			t.Errorf("%s: %d bytes stay taken", tc.name, d.bodies.Had())
		}
	}
}

// bodies are some that routes read, of so many small things or of a large one.
func bodies(n int) []string {
	long := strings.Repeat("x", 100*n)
	few := min(n, 1000)
	return []string{
		userOf + "[" + listed("{}", n) + "]}]}", userOf + "[" + listed(`{"type":"text","text":""}`, n) + "]}]}", userOf + `[{"type":"text","text":"` + long + `"}]}]}`,
		`{"model":"demo","max_tokens":4,"messages":[` + listed(`{"role":"user","content":"a"}`, n) + "]}", `{"model":"demo","prompt":"` + long + `"}`,
		`{"model":"demo","max_tokens":4,"messages":[` + listed(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"a"}]}`, n/2) + "]}",
		`{"model":"demo","input":[` + listed(`{"role":"user","content":[{"type":"input_text","text":"x"}]}`, n) + "]}", `{"model":"demo","input":[` + listed(`{"type":"reasoning","summary":[{"text":"x"}]}`, n) + "]}",
		`{"model":"demo","tokens":[` + listed("1", 20*n) + "]}", `{"model":"demo","prompt":[` + listed("[1,2,3]", 128) + "]}", `{"model":"demo","prompt":[` + listed("1", 20*n) + "]}", `{"model":"demo","prompt":[` + listed(`"a"`, 128) + "]}",
		chatOf + `,"tools":[` + listed(`{"type":"function","function":{"name":"f","parameters":{`+listed(`"x":1`, 50)+"}}}", few) + "]}", chatOf + `,"tools":[` + listed(`{"name":"f","input_schema":{"x":1}}`, few) + "]}",
		chatOf + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"x":"` + long + `"}}}]}`, `{"model":"demo","input":"x","tools":[{"type":"function","name":"f","parameters":{"x":"` + long + `"}}]}`,
		chatOf + `,"logit_bias":{` + listed(`"5":1`, few) + "}}", chatOf + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"a":"` + long[:10*n] + `"}}}}`,
		chatOf + `,"chat_template_kwargs":{` + listed(`"a":1`, n/4) + `},"reasoning_effort":"low","verbosity":"low","thinking":{"type":"enabled"},"enable_thinking":true,"documents":[` + listed(`{"a":"`+long[:n/10]+`"}`, few) + "]}",
		`{"model":"demo","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[` + listed(`{"function":{"name":"f"}}`, few) + "]}]}", "{" + listed(`"a":1`, 6*n) + "}", `{"a":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + "}",
		userOf + "[" + listed(`{"type":"tool_result","content":[{"type":"text","text":"x"}]}`, n) + "]}]}", userOf + "[" + listed(`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"}]}}`, n/2) + "]}]}",
	}
}

const (
	// reread is how often what reading a body takes is taken and let go of.
	reread = 4
	// perEscaped is what each byte of a field's name takes that has escapes.
	perEscaped = 64
	// aside are bytes that anything takes.
	aside = 64 << 10
)

// Reading takes at a time what its route has measured, and what it leaves is a part of that.
func TestMeasure(t *testing.T) {
	for i, body := range bodies(9000) {
		for _, r := range readings {
			memory, err := r.route.Measure([]byte(body))
			if err != nil {
				t.Errorf("%d at %s: %v", i, r.route.Path, err)
				continue
			}
			if _, err := r.read(t.Context(), []byte(body)); err != nil {
				continue // nothing is left of it
			}
			shown := int64(0) // has room of its own
			kept := held(func() any {
				ask, _ := r.read(t.Context(), []byte(body))
				if of, is := ask.(*responses.Ask); is {
					shown = of.Shown.Bytes()
				}
				return ask
			})
			if kept > memory/keptPart+shown+aside {
				t.Errorf("%d at %s: of %d bytes %d are kept", i, r.route.Path, memory, kept)
			}
		}
	}
}

// No body takes more memory, or more work with it, than its bytes and values allow: reading is linear.
func FuzzWorkOfBodies(f *testing.F) {
	for _, body := range bodies(200) {
		f.Add([]byte(body))
	}
	for _, c := range creating {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, r := range readings {
			var memory int64
			var refused error
			if took := testkit.Allocated(func() { memory, refused = r.route.Measure(body) }); took > perEscaped*int64(len(body))+aside {
				t.Errorf("measuring %d bytes for %s takes %d", len(body), r.route.Path, took)
			}
			if refused != nil {
				continue
			}
			if took := testkit.Allocated(func() { _, _ = r.read(t.Context(), body) }); took > reread*memory+aside {
				t.Errorf("reading %d bytes at %s takes %d of memory, %d times what was measured", len(body), r.route.Path, took, took/memory)
			}
		}
	})
}

// Readers end when their client leaves.
func TestReadersLeave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, body := range bodies(200) {
		for _, r := range readings {
			if _, err := r.read(ctx, []byte(body)); err == nil || !strings.Contains(err.Error(), "the client has left") {
				t.Errorf("%d at %s: %v", i, r.route.Path, err)
			}
		}
	}
}

// A prompt's room is held until its answer begins, and that of what a response repeats until it ends.
func TestRoomIsHeld(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, tc := range map[string]struct {
		path, body     string
		waiting, begun int64 // at least
	}{
		"chat":       {chatPath, userOf + `"` + long + `"}]}`, 400 << 10, 0},
		"completion": {"/v1/completions", `{"model":"demo","prompt":"` + long + `","n":4}`, 1000 << 10, 0},
		"message":    {"/v1/messages", userOf + `"` + long + `"}]}`, 400 << 10, 0},
		"response":   {"/v1/responses", `{"model":"demo","input":"` + long + `"}`, 400 << 10, 0},
		"shown":      {"/v1/responses", `{"model":"demo","input":"x","instructions":"` + long + `"}`, 1000 << 10, 800 << 10},
		"tools":      {"/v1/responses", `{"model":"demo","input":"x","stream":true,"tools":[{"type":"function","name":"f","description":"` + long + `"}]}`, 1000 << 10, 800 << 10},
	} {
		for _, begins := range []bool{false, true} {
			words := []string{"a"}
			if begins {
				words = append(words, "b")
			}
			u := &fake.Upstream{Holds: make(chan struct{}), Answer: func(p *pb.Prompt) []*pb.Chunk { return fake.Words(p, "stop", words...) }}
			d := newDoor(t, u)
			var asked sync.WaitGroup
			asked.Go(func() {
				if w := ask(d, "POST", tc.path, tc.body); w.Code != 200 {
					t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
				}
			})
			testkit.Eventually(t, fmt.Sprintf("%s waits, begun %v", name, begins), func() bool {
				prompts, _ := u.Asked()
				has := d.bodies.Had()
				if begins {
					return len(prompts) > 0 && has >= tc.begun && has < tc.begun+20<<10
				}
				return len(prompts) > 0 && has >= tc.waiting && has < 2*tc.waiting
			})
			close(u.Holds)
			asked.Wait()
			if d.bodies.Had() != 0 {
				t.Errorf("%s: %d bytes stay taken", name, d.bodies.Had())
			}
		}
	}
}

// What was asked is let go of when its answer has begun, however long that goes on.
func TestPromptsAreLetGo(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for path, body := range map[string]string{
		chatPath: userOf + `"` + long + `"}]}`, "/v1/completions": `{"model":"demo","prompt":"` + long + `"}`, "/v1/messages": userOf + `"` + long + `"}]}`, "/v1/responses": `{"model":"demo","input":"` + long + `"}`,
	} {
		const several = 8
		d, u := newDoor(t, &fake.Upstream{}), &letting{&fake.Upstream{}, make(chan struct{}), make(chan struct{}, 2*several)}
		d.Upstream = u
		var asked sync.WaitGroup
		left := held(func() any {
			for range several {
				asked.Go(func() { ask(d, "POST", path, body) })
			}
			for range several {
				<-u.begun
			}
			testkit.Eventually(t, path+" has begun", func() bool { return d.bodies.Had() < 1<<10 })
			return d
		})
		close(u.end)
		asked.Wait()
		if most := int64(several * len(long) / 2); left > most {
			t.Errorf("%s: %d bytes are held, want at most %d", path, left, most)
		}
	}
}

// letting are services that keep nothing of a prompt once its answer has begun.
type letting struct {
	*fake.Upstream
	end, begun chan struct{}
}

func (l *letting) Ask(_ context.Context, _ upstream.To, p *pb.Prompt) upstream.Chunks {
	return l.tell(fake.Words(p, "stop", "a", "b"))
}

func (l *letting) Count(context.Context, string, *pb.Prompt) (int32, error) { return 1, nil }

func (l *letting) tell(chunks []*pb.Chunk) upstream.Chunks {
	return func(yield func(*pb.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
			l.begun <- struct{}{}
			<-l.end
		}
	}
}

// What is gathered of an answer takes as much for each part of it, however long it is.
func TestLongAnswers(t *testing.T) {
	const parts, size = 10000, 16
	part := strings.Repeat("x", size)
	texts := func(p *pb.Prompt) []*pb.Chunk { return fake.Words(p, "stop", slices.Repeat([]string{part}, parts)...) }
	thoughts := func(p *pb.Prompt) (out []*pb.Chunk) {
		for _, c := range texts(p) {
			c.Parsed, c.Text = &pb.Parsed{ReasoningContent: c.Text}, ""
			out = append(out, c)
		}
		return out
	}
	calls := func(p *pb.Prompt) (out []*pb.Chunk) {
		for _, c := range texts(p) {
			c.Parsed, c.Text = &pb.Parsed{ToolCalls: []*pb.ToolCall{{Id: "c", Name: "f", Arguments: c.Text}}}, ""
			out = append(out, c)
		}
		return out
	}
	for _, tc := range []struct {
		path, body string
		answers    []func(*pb.Prompt) []*pb.Chunk
	}{
		{chatPath, chatOf, []func(*pb.Prompt) []*pb.Chunk{texts, thoughts, calls}}, {"/v1/messages", chatOf, []func(*pb.Prompt) []*pb.Chunk{texts, thoughts, calls}},
		{"/v1/completions", `{"model":"demo","prompt":"x"`, []func(*pb.Prompt) []*pb.Chunk{texts}}, {"/v1/responses", `{"model":"demo","input":"x"`, []func(*pb.Prompt) []*pb.Chunk{texts, thoughts}},
	} {
		for i, answer := range tc.answers {
			for _, stream := range []string{"}", `,"stream":true}`} {
				d := newDoor(t, &fake.Upstream{Answer: answer})
				took := testkit.Allocated(func() {
					if w := ask(d, "POST", tc.path, tc.body+stream); w.Code != 200 {
						t.Errorf("%s: %d %.200s", tc.path, w.Code, w.Body)
					}
				})
				if most := int64(parts) * (8 << 10); took > most {
					t.Errorf("%s %d%s: %d bytes for %d parts, want at most %d", tc.path, i, stream, took, parts, most)
				}
			}
		}
	}
}
