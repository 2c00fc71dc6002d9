package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// newDoor is a door before services that the test plays.
func newDoor(t testing.TB, u *fake.Upstream, changes ...func(*Config)) *Door {
	t.Helper()
	tm, err := telemetry.Setup(t.Context(), telemetry.Config{ServiceName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tm.Close() })
	c := Config{MaxBody: 1 << 20, MaxStreams: 8, MaxConns: 64, Stall: testkit.Patience}
	for _, change := range changes {
		change(&c)
	}
	d := NewDoor(DoorSettings{Config: c, Upstream: u, Telemetry: tm, Replica: "gateway-1", Logger: slog.New(slog.DiscardHandler)})
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
	return d
}

// ask sends a body, and returns what comes.
func ask(d http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Host = "localhost:8080"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// post sends a body to a server, as a client that may leave.
func post(ctx context.Context, url, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// events are those of a stream, without what frames them.
func events(t *testing.T, body string) (out []string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		text := lines.Text()
		if text == "" {
			continue
		}
		data, is := strings.CutPrefix(text, "data: ")
		if !is {
			t.Errorf("a stream has the line %q", text)
		}
		out = append(out, data)
	}
	return out
}

const hi = `{"model":"demo","messages":[{"role":"user","content":"hi"}]`

func TestChat(t *testing.T) {
	u := &fake.Upstream{}
	w := ask(newDoor(t, u), "POST", "/v1/chat/completions", hi+`,"seed":-1,"top_k":-1,"user":"x","max_tokens":5,"max_completion_tokens":7}`)
	var got struct {
		ID, Object, Model string
		Created           int64
		Choices           []struct {
			Index        int
			Message      struct{ Role, Content string }
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
		Fingerprint string `json:"system_fingerprint"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	c := got.Choices[0]
	if got.Object != "chat.completion" || c.Message.Content != "Hello world" || c.Message.Role != "assistant" || c.FinishReason != "stop" || got.Usage.Total != 6 ||
		got.ID != "chatcmpl-"+w.Header().Get("X-Request-Id") || !strings.HasPrefix(got.Fingerprint, "fp_") || got.Model != "demo" {
		t.Errorf("%s", w.Body)
	}
	prompts, _ := u.Asked()
	p := prompts[0]
	if p.GetMaxTokens() != 7 || p.Seed == nil || *p.Seed != 0 || p.GetTopK() != 0 || p.Messages[0].GetContent() != "hi" || p.RequestId != w.Header().Get("X-Request-Id") {
		t.Errorf("asked %v", p)
	}
}

// The role comes with the first token, the end by itself, then what was counted, then the mark.
func TestStream(t *testing.T) {
	w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+`,"stream":true,"stream_options":{"include_usage":true}}`)
	got := events(t, w.Body.String())
	if len(got) != 6 || got[5] != "[DONE]" || !strings.Contains(got[0], `"delta":{"role":"assistant","content":"Hello"}`) || !strings.Contains(got[1], `"delta":{"content":" wor"}`) ||
		!strings.Contains(got[3], `"delta":{},"logprobs":null,"finish_reason":"stop"`) || !strings.Contains(got[4], `"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6`) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if h := w.Header(); !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", h)
	}
}

// A failure in the middle is an event, and never a mere end; before the first token it is a status.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fails  error
		answer func(*pb.Prompt) []*pb.Chunk
		stream bool
		status int
		want   string
	}{
		"in the middle": {&client.Error{Code: client.CodeInternal, Message: "lost"}, nil, true, 200, `","type":"server_error","param":null,"code":"internal"}}`},
		"whole":         {&client.Error{Code: client.CodeInternal, Message: "lost"}, nil, false, 500, `"code":"internal"`},
		"overloaded": {nil, func(p *pb.Prompt) []*pb.Chunk {
			return []*pb.Chunk{{Index: -1, FinishReason: "error", Error: &pb.Error{Code: "overloaded", Message: "full", RetryAfter: 900}}}
		}, true, 429, `"code":"overloaded"`},
		"late":      {&client.Error{Code: client.CodeDeadlineExceeded}, nil, false, 504, "deadline_exceeded"},
		"not ready": {&client.Error{Code: client.CodeModelNotReady}, nil, false, 503, "model_not_ready"},
		"too long":  {&client.Error{Code: client.CodeBadPrompt, Message: "the prompt has 600 tokens; the context holds 512 with at least 1 to generate"}, nil, false, 400, `This model's maximum context length is 512 tokens. However`},
		"repeated":  {&client.Error{Code: client.CodeBadRequest, Message: `request_id "x" was used within the last 2h for another prompt; choose a new one`}, nil, false, 422, "idempotency_conflict"},
		"a field":   {&client.Error{Code: client.CodeBadRequest, Message: `temperature is 101; it must be a number from 0 to 100`}, nil, false, 400, `"param":"temperature"`},
		"no tokens": {&client.Error{Code: client.CodeBadRequest, Message: `max_tokens is 0; it must be 1 or more`}, nil, false, 400, `"param":"max_tokens","code":"bad_request"`},
		"no end":    {nil, func(p *pb.Prompt) []*pb.Chunk { return fake.Words(p, "stop", "a", "b")[:1] }, true, 200, "a fault of its own"},
	} {
		u := &fake.Upstream{Fails: tc.fails, Answer: tc.answer}
		body := hi + "}"
		if tc.stream {
			body = hi + `,"stream":true}`
		}
		w := ask(newDoor(t, u), "POST", "/v1/chat/completions", body)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if tc.stream && w.Code == 200 && !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
			t.Errorf("%s: the stream ends with %q", name, w.Body)
		}
		if retry := w.Header().Get("Retry-After"); (tc.status == 429 || tc.status == 503) != (retry != "") || tc.status == 429 && retry != "60" {
			t.Errorf("%s: Retry-After %q", name, retry)
		}
	}
}

// What could not be answered is refused at once on each route that asks, and says when to ask again;
// what needs no token is told.
func TestNotReady(t *testing.T) {
	u := &fake.Upstream{Unready: errors.New("no token can flow in any model")}
	d := newDoor(t, u)
	for path, body := range map[string]string{
		"/v1/chat/completions": hi + "}", "/v1/completions": `{"model":"demo","prompt":"a","stream":true}`, "/v1/responses": `{"model":"demo","input":"a"}`,
		"/v1/messages": hi + `,"max_tokens":5}`,
	} {
		w := ask(d, "POST", path, body)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "no token can flow in model demo") {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	if prompts, _ := u.Asked(); len(prompts) > 0 {
		t.Errorf("%d were asked", len(prompts))
	}
	for path, body := range map[string]string{"/tokenize": `{"model":"demo","prompt":"a"}`, "/v1/messages/count_tokens": hi + "}"} {
		if w := ask(d, "POST", path, body); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// What says that it has too many bytes is refused before it is sent.
func TestTooLongBody(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", iotest.ErrReader(errors.New("the body was read")))
	r.ContentLength, r.Host = 1<<50, "127.0.0.1"
	w := httptest.NewRecorder()
	newDoor(t, &fake.Upstream{}).ServeHTTP(w, r)
	if w.Code != 413 || w.Header().Get("Connection") != "close" || !strings.Contains(w.Body.String(), "--http-max-body") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// What is no path of a route is refused in JSON as well.
func TestOddPaths(t *testing.T) {
	for _, call := range [][2]string{{"GET", "//v1/models"}, {"GET", "/v1/models/demo/../x"}, {"POST", "/v1/./completions"}, {"CONNECT", "/v1/models"}, {"GET", "/nowhere/"}} {
		w := ask(newDoor(t, &fake.Upstream{}), call[0], call[1], "")
		if w.Code != 404 || !strings.Contains(w.Body.String(), `"code":"unknown_url"`) {
			t.Errorf("%v: %d %s", call, w.Code, w.Body)
		}
	}
}

func TestRefused(t *testing.T) {
	for body, want := range map[string]string{
		``:                               "no JSON object",
		`[]`:                             "no JSON object",
		`null`:                           "the body is null",
		`{"model":"demo"`:                "no JSON object",
		`{"model":"demo"}`:               `"param":"messages"`,
		"{\"model\":\"\xff\"}":           "not UTF-8",
		`{"model":"\ud800"}`:             "surrogate",
		`{"messages":[]}`:                `"param":"model"`,
		hi + `,"temperature":NaN}`:       "no JSON object",
		hi + `,"temperature":"1"}`:       `temperature: a string stands where a number is wanted`,
		hi + `,"max_tokens":1.5}`:        `"param":"max_tokens"`,
		hi + `,"max_tokens":2147483648}`: `max_tokens is 2147483648; it must be a whole number from 1 to 2147483647`,
		hi + `,"n":` + strings.Repeat("1", 99) + `}`: `n: a number ` + strings.Repeat("1", 33) + ` stands where`,
		hi + `,"n":{}}`: `n: an object stands where`,
		`{"model":"demo","messages":[{"role":"user","content":[{"type":"text"}]}]}`: `"param":"messages[0].content[0].text"`,
		hi + `,"max_token":5}`:                `Unrecognized request argument supplied: max_token`,
		hi + `,"n":0}`:                        `"param":"n"`,
		hi + `,"n":1000000}`:                  `"param":"n"`,
		hi + `,"seed":1.5}`:                   `"param":"seed"`,
		hi + `,"stop":5}`:                     `"param":"stop"`,
		hi + `,"web_search_options":{"a":1}}`: `"param":"web_search_options"`,
		hi + `,"stream_options":{}}`:          `only allowed when stream`,
		hi + `,"top_logprobs":2}`:             `"param":"top_logprobs"`,
		`{"model":"other","messages":[{"role":"user","content":"hi"}]}`:                                `"code":"model_not_found"`,
		`{"model":"demo","messages":[{"content":"hi"}]}`:                                               `"param":"messages[0].role"`,
		`{"model":"demo","messages":[{"role":"user"}]}`:                                                `"param":"messages[0].content"`,
		`{"model":"demo","messages":[{"role":"user","content":[{"type":"image_url","image_url":1}]}]}`: `"param":"messages[0].content[0]"`,
		`{"model":"demo","messages":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`:    "nested more than",
	} {
		w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", body)
		if w.Code/100 != 4 || !strings.Contains(strings.ToLower(w.Body.String()), strings.ToLower(want)) {
			t.Errorf("%.80s: %d %s", body, w.Code, w.Body)
		}
	}
}

func TestBodyBound(t *testing.T) {
	d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.MaxBody = 100 << 10 })
	w := ask(d, "POST", "/v1/chat/completions", hi+`,"prediction":"`+strings.Repeat("x", 200<<10)+`"}`)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "--http-max-body") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(d, "POST", "/v1/chat/completions", hi+`,"prediction":"`+strings.Repeat("x", 90<<10)+`"}`); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if d.bodies.Had() != 0 {
		t.Error("a body has left its room taken")
	}
}

// Several answers come of one request: all have seeds and ids of their own, and the first one
// those of a request for one.
func TestSeveral(t *testing.T) {
	u := &fake.Upstream{}
	w := ask(newDoor(t, u), "POST", "/v1/completions", `{"model":"demo","prompt":["a","b"],"n":2,"seed":5,"stream":true}`, "Idempotency-Key", "key")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	texts := map[int]string{}
	for _, e := range events(t, w.Body.String()) {
		var got struct {
			Choices []struct {
				Index int
				Text  string
			}
		}
		if json.Unmarshal([]byte(e), &got) == nil && len(got.Choices) > 0 {
			texts[got.Choices[0].Index] += got.Choices[0].Text
		}
	}
	for i := range 4 {
		if texts[i] != "Hello world" {
			t.Errorf("answer %d is %q", i, texts[i])
		}
	}
	prompts, _ := u.Asked()
	ids, seeds := map[string]bool{}, map[uint32]int{}
	for _, p := range prompts {
		ids[p.RequestId] = true
		seeds[p.GetSeed()]++
		if p.GetMaxTokens() != 16 {
			t.Errorf("max_tokens %v", p.MaxTokens)
		}
	}
	id := w.Header().Get("X-Request-Id")
	if len(ids) != 4 || !ids[id] || !ids[id+"-3"] || len(seeds) != 2 || seeds[5] != 2 {
		t.Errorf("ids %v, seeds %v", ids, seeds)
	}
}

func TestCompletionLogprobs(t *testing.T) {
	u := &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		lp := float32(-1)
		scores := []*pb.Chunk{{Index: -2, Score: &pb.Score{Position: 0, Logprob: &lp, Top: []*pb.TokenLogprob{{Id: 3, Logprob: -0.25, Token: []byte("on")}}}}, {Index: -1, Score: &pb.Score{Position: 1}}}
		return append(scores, fake.Words(p, "length", "!")...)
	}}
	w := ask(newDoor(t, u), "POST", "/v1/completions", `{"model":"demo","prompt":"Once upon","echo":true,"logprobs":1,"max_tokens":1}`)
	want := `"text":"Once upon!","logprobs":{"tokens":["Once ","upon","!"],"token_logprobs":[null,-1,-0.5],"top_logprobs":[null,{"on":-0.25,"upon":-1},{"!":-0.5}],"text_offset":[0,5,9]}`
	if !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s", w.Body)
	}
	prompts, _ := u.Asked()
	if p := prompts[0]; p.Score != "logprobs" || len(p.InputIds) != 2 || p.Text != "" {
		t.Errorf("asked %v", p)
	}
}

// Without a tokenizer, ids can be scored, and tokens are named by theirs.
func TestLogprobsWithoutTokenizer(t *testing.T) {
	u := &fake.Upstream{Bare: true, Answer: func(p *pb.Prompt) []*pb.Chunk {
		lp := float32(-1)
		answer := fake.Words(p, "length", "")
		answer[0].Logprobs[0] = &pb.TokenLogprobs{Chosen: &pb.TokenLogprob{Id: 10, Logprob: -0.5}, Top: []*pb.TokenLogprob{{Id: 10, Logprob: -0.5}, {Id: 7, Logprob: -2}}}
		return append([]*pb.Chunk{{Index: -1, Score: &pb.Score{Position: 0, Logprob: &lp, Top: []*pb.TokenLogprob{{Id: 3, Logprob: -0.25}}}}}, answer...)
	}}
	w := ask(newDoor(t, u), "POST", "/v1/completions", `{"model":"demo","prompt":[5,6],"echo":true,"logprobs":1,"max_tokens":1}`)
	want := `"tokens":["token_id:5","token_id:6","token_id:10"],"token_logprobs":[null,-1,-0.5],"top_logprobs":[null,{"token_id:3":-0.25,"token_id:6":-1},{"token_id:10":-0.5,"token_id:7":-2}]`
	if !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Clients of vLLM may have tokens that are no text named by their ids.
func TestNumberedTokens(t *testing.T) {
	w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+`,"logprobs":true,"top_logprobs":2,"return_tokens_as_token_ids":true}`)
	if want := `{"token":"token_id:7","logprob":-2,"bytes":[226,130]}`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s", w.Body)
	}
}

// What a tokenizer puts around a text is left out where the client asks for that, and what is in
// the text is not.
func TestWithoutEnds(t *testing.T) {
	m := upstream.Model{BOS: "<s>", EOS: "</s>"}
	for text, want := range map[string]int{"a": 1, "<s>a": 2, "a</s>": 2, "<s>a</s>": 3} {
		tokens := &pb.Tokens{Ids: []uint32{1, 5, 2}, Pieces: [][]byte{[]byte("<s>"), []byte("a"), []byte("</s>")}}
		if withoutEnds(tokens, text, m); len(tokens.Ids) != want || len(tokens.Pieces) != want {
			t.Errorf("%q: %v", text, tokens.Ids)
		}
	}
	empty := &pb.Tokens{}
	if withoutEnds(empty, "", m); len(empty.Ids) != 0 {
		t.Errorf("%v", empty.Ids)
	}
}

func TestChatLogprobs(t *testing.T) {
	w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+`,"logprobs":true,"top_logprobs":2}`)
	want := `{"token":"Hello","logprob":-0.5,"bytes":[72,101,108,108,111],"top_logprobs":[{"token":"Hello","logprob":-0.5,"bytes":[72,101,108,108,111]},{"token":"�","logprob":-2,"bytes":[226,130]}]}`
	if !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s", w.Body)
	}
}

func TestOthers(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	for _, tc := range []struct{ method, path, body, want string }{
		{"GET", "/v1/models", "", `{"object":"list","data":[{"id":"demo","object":"model","created":1,"owned_by":"switchyard","max_model_len":512`},
		{"GET", "/v1/models/org/demo", "", `"id":"org/demo"`},
		{"GET", "/v1/models/none", "", `"code":"model_not_found"`},
		{"POST", "/tokenize", `{"model":"demo","prompt":"a b","return_token_strs":true}`, `{"count":2,"max_model_len":512,"tokens":[1,2],"token_strs":["a ","b"]}`},
		{"POST", "/tokenize", hi + `}`, `"count":1`},
		{"POST", "/detokenize", `{"model":"demo","tokens":[1,2]}`, `{"prompt":"w w "}`},
		{"POST", "/detokenize", `{"model":"demo","tokens":[]}`, `{"prompt":""}`},
		{"POST", "/tokenize", `{"prompt":"a b","add_special_tokens":false}`, `"tokens":[1,2]`},
		{"POST", "/detokenize", `{"tokens":[1,2]}`, `{"prompt":"w w "}`},
		{"GET", "/tokenizer_info", "", `"vocab_size":8192,"model_max_length":512,"bos_token":null,"eos_token":"</s>"`},
		{"GET", "/health", "", "ready"},
		{"GET", "/healthz", "", "live"},
		{"GET", "/metrics", "", "go_goroutines"},
		{"GET", "/nowhere", "", `"code":"unknown_url"`},
		{"GET", "/v1/chat/completions", "", `"code":"method_not_allowed"`},
	} {
		if w := ask(d, tc.method, tc.path, tc.body); !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, w.Code, w.Body)
		}
	}
}

// A key says whose a request is; a file that has changed is read again.
func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write := func(key string) {
		sum := sha256.Sum256([]byte(key))
		if err := os.WriteFile(file, []byte("# keys\n"+hex.EncodeToString(sum[:])+" acme low # of "+key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret")
	u := &fake.Upstream{}
	d := newDoor(t, u, func(c *Config) { c.Keys = file })
	for key, status := range map[string]int{"Bearer secret": 200, "Bearer other": 401, "": 401, "secret": 401} {
		if w := ask(d, "POST", "/v1/chat/completions", hi+"}", "Authorization", key, "Idempotency-Key", "mine"); w.Code != status {
			t.Errorf("%q: %d %s", key, w.Code, w.Body)
		}
	}
	prompts, tos := u.Asked()
	if len(tos) != 1 || tos[0].Flow.Tenant != "acme" || tos[0].Flow.Class != "low" || prompts[0].RequestId == "mine" {
		t.Errorf("asked %v as %v", prompts, tos)
	}
	if w := ask(d, "GET", "/metrics", ""); w.Code != 401 {
		t.Errorf("metrics without a key: %d", w.Code)
	}
	write("longer-secret")
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
	if w := ask(d, "GET", "/v1/models", "", "X-Api-Key", "longer-secret"); w.Code != 200 {
		t.Errorf("the new key: %d", w.Code)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil || d.keys.load() == nil {
		t.Errorf("a file without keys was read, %v", err)
	}
	if w := ask(d, "GET", "/v1/models", "", "X-Api-Key", "longer-secret"); w.Code != 200 {
		t.Errorf("the last good key behind a broken file: %d", w.Code)
	}
}

// A client that leaves ends its answers.
func TestLeaves(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	s := httptest.NewServer(newDoor(t, u))
	defer s.Close()
	r, err := post(t.Context(), s.URL, hi+`,"stream":true,"n":3}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(r.Body, make([]byte, 10), 10); err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	testkit.Eventually(t, "all answers have ended", func() bool { return u.Left() == 3 })
}

// Beyond the bound answers are refused, and a gateway that stops takes none.
func TestBoundAndDrain(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	d := newDoor(t, u, func(c *Config) { c.MaxStreams = 2 })
	s := httptest.NewServer(d)
	defer s.Close()
	told := make(chan string)
	go func() {
		r, err := post(t.Context(), s.URL, hi+`,"stream":true,"n":2}`)
		if err != nil {
			told <- err.Error()
			return
		}
		defer func() { _ = r.Body.Close() }()
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}()
	testkit.Eventually(t, "both are asked", func() bool { p, _ := u.Asked(); return len(p) == 2 })
	if w := ask(d, "POST", "/v1/chat/completions", hi+"}"); w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(d, "POST", "/v1/chat/completions", hi+`,"n":3}`); w.Code != 400 || !strings.Contains(w.Body.String(), "--http-max-streams") {
		t.Errorf("more than ever may be under way: %d %s", w.Code, w.Body)
	}
	d.drain()
	if w := ask(d, "POST", "/v1/chat/completions", hi+"}"); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(d, "GET", "/readyz", ""); w.Code != 503 {
		t.Errorf("ready while it drains: %s", w.Body)
	}
	close(u.Holds)
	if got := <-told; !strings.HasSuffix(got, "data: [DONE]\n\n") || strings.Contains(got, "error") {
		t.Errorf("what was under way got %s", got)
	}
	http.DefaultClient.CloseIdleConnections()
}

// What is cut at the end of a gateway is told so.
func TestCut(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	d := newDoor(t, u)
	s := httptest.NewUnstartedServer(nil)
	s.Config = d.server()
	s.Start()
	defer s.Close()
	r, err := post(t.Context(), s.URL, hi+`,"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	d.cut()
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(body), "this gateway stopped before the answer was whole") || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("%v %s", err, body)
	}
	_ = r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// Pages of other sites may not ask.
func TestCrossOrigin(t *testing.T) {
	w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+"}", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Whatever the body, the answer is no fault of the gateway, and JSON.
func FuzzBodies(f *testing.F) {
	for _, way := range doorways {
		f.Add(way.body + "}")
	}
	for _, body := range []string{hi + `,` + toolsChat + `,"tool_choice":"required"}`, `{"model":"demo","input":"x",` + toolsResponses + `,"stream":true}`, `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"x"}],` + toolsMessages + `}`,
		hi + `,"stream":true,"n":2,"logprobs":true}`, `{"model":"demo","prompt":[[1,2],[3]],"echo":true,"logprobs":1}`, `{"model":"demo","prompt":"x","stop":["a"]}`,
		`{"model":"demo","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","content":[{"type":"text","text":"x"}]}]}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		d := newDoor(t, &fake.Upstream{})
		for _, way := range doorways {
			path := way.path
			if w := ask(d, "POST", path, body); w.Code >= 500 || w.Code >= 400 && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

// A client that waits for a stream hears something after a while, in the form of its API, and gets
// then what it would have got; what fails by then is told in the stream.
func TestSilence(t *testing.T) {
	for path, tc := range map[string]struct{ body, first, behind string }{
		"/v1/chat/completions": {hi + `,"stream":true}`, ": waiting\n\n", `"delta":{"role":"assistant","content":"Hello world"}`},
		"/v1/completions":      {`{"model":"demo","prompt":"x","stream":true}`, ": waiting\n\n", `"text":"Hello world"`},
		"/v1/responses":        {`{"model":"demo","input":"x","stream":true}`, "event: response.created\n", `"type":"response.completed"`},
		"/v1/messages":         {`{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}`, "event: message_start\n", "event: message_stop\n"},
	} {
		for _, fails := range []error{nil, &client.Error{Code: client.CodeOverloaded, Message: "full"}} {
			u := &fake.Upstream{Holds: make(chan struct{}), Fails: fails, Answer: func(p *pb.Prompt) []*pb.Chunk { return fake.Words(p, "stop", "Hello world") }}
			d := newDoor(t, u)
			d.quiet = time.Millisecond
			s := httptest.NewServer(d)
			r, err := http.Post(s.URL+path, "application/json", strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			begin := make([]byte, len(tc.first))
			if _, err := io.ReadFull(r.Body, begin); err != nil || string(begin) != tc.first || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %q %v", path, r.StatusCode, begin, err)
			}
			close(u.Holds)
			rest, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			want := tc.behind
			if fails != nil {
				want = "full"
			}
			if n := strings.Count(string(begin)+string(rest), tc.first); !strings.Contains(string(rest), want) || path != "/v1/chat/completions" && path != "/v1/completions" && n != 1 {
				t.Errorf("%s: then %s", path, rest)
			}
			s.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
