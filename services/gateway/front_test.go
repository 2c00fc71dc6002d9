package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// under asks a door under a name, as a page of an origin does; empty: as no browser does.
func under(d *Door, method, path, host, origin string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(hi+"}"))
	r.Host = host
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// A gateway without keys is served under names that are its own, so that no page reaches it whose
// name was made to lead here; refusals are JSON.
func TestHosts(t *testing.T) {
	open := newDoor(t, &fake.Upstream{}, func(c *Config) { c.Listen, c.Hosts = "127.0.0.1:8080", []string{"gateway.example"} })
	for host, status := range map[string]int{
		"127.0.0.1:8080": 200, "127.0.0.1": 200, "[::1]:8080": 200, "[::1]": 200, "localhost": 200, "LocalHost:8080": 200, "localhost.": 200, "app.localhost:8080": 200, "192.0.2.7:80": 200,
		"gateway.example:8080": 200, "GATEWAY.example": 200, "": 200,
		"evil.example": 403, "evil.example:8080": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "notlocalhost": 403, "gateway.example.evil": 403, "xn--lcalhost-75a": 403, "127.1.": 403,
	} {
		for _, call := range [][2]string{{"POST", "/v1/chat/completions"}, {"GET", "/v1/models"}, {"GET", "/metrics"}, {"GET", "/v1/responses/resp_x.demo"}, {"DELETE", "/v1/responses/resp_x.demo"}, {"POST", "/v1/messages"}} {
			for _, origin := range []string{"", "http://" + host} {
				w := under(open, call[0], call[1], host, origin)
				if refused := w.Code == 403; refused != (status == 403) || !json.Valid(w.Body.Bytes()) && call[1] != "/metrics" {
					t.Errorf("%s %q of %q: %d %s", call, host, origin, w.Code, w.Body)
				}
			}
		}
	}
	outside := newDoor(t, &fake.Upstream{}, func(c *Config) { c.Listen = "0.0.0.0:8080" })
	for origin, status := range map[string]int{"": 200, "http://gateway.svc": 403} {
		if w := under(outside, "POST", "/v1/chat/completions", "gateway.svc", origin); w.Code != status {
			t.Errorf("off the loopback, of %q: %d %s", origin, w.Code, w.Body)
		}
	}
	keyed := sharedDoor(t, &fake.Upstream{})
	if w := under(keyed, "GET", "/v1/models", "any.example", ""); w.Code != 401 {
		t.Errorf("with keys: %d %s", w.Code, w.Body)
	}
}

// Pages of origins that are named may ask and read the answer; others get JSON that says why not.
func TestOrigins(t *testing.T) {
	const page = "https://chat.example"
	d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.Origins = []string{page, "http://localhost:3000"} })
	w := under(d, "POST", "/v1/chat/completions", "localhost:8080", page)
	if h := w.Header(); w.Code != 200 || h.Get("Access-Control-Allow-Origin") != page || h.Get("Vary") != "Origin" {
		t.Errorf("%d %v %s", w.Code, h, w.Body)
	}
	for _, origin := range []string{"https://evil.example", "http://chat.example", "https://chat.example:444", "https://chat.example.evil", "null"} {
		w := under(d, "POST", "/v1/chat/completions", "localhost:8080", origin)
		if !strings.Contains(w.Body.String(), `"code":"cross_origin"`) || w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v %s", origin, w.Code, w.Header(), w.Body)
		}
		if w := under(d, "POST", "/v1/messages", "localhost:8080", origin); !strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("%s: of Anthropic's clients: %s", origin, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodOptions, "/v1/chat/completions", nil)
	r.Host = "localhost:8080"
	for name, value := range map[string]string{"Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"} {
		r.Header.Set(name, value)
	}
	got := httptest.NewRecorder()
	if d.ServeHTTP(got, r); got.Code != 204 || got.Header().Get("Access-Control-Allow-Headers") != "authorization,content-type" || !strings.Contains(got.Header().Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("before it asks: %d %v", got.Code, got.Header())
	}
	for _, wrong := range []string{"chat.example", "https://chat.example/", "https://", "*"} {
		if checkOrigins([]string{wrong}, "") == nil {
			t.Errorf("%q is taken for an origin", wrong)
		}
	}
	for _, wrong := range []string{"", "a:80", "http://a", "*.a"} {
		if checkHosts([]string{wrong}) == nil {
			t.Errorf("%q is taken for a name", wrong)
		}
	}
	if err := checkOrigins([]string{"*", page}, "keys"); err != nil {
		t.Error(err)
	}
}

// A key comes as clients of each API send it, and who has none is told how.
func TestKeyForms(t *testing.T) {
	file, sum := filepath.Join(t.TempDir(), "keys"), sha256.Sum256([]byte("secret"))
	if err := os.WriteFile(file, []byte(hex.EncodeToString(sum[:])), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.Keys = file })
	for header, values := range map[string]map[string]int{
		"Authorization": {"Bearer secret": 200, "bearer secret": 200, "BEARER secret": 200, "bEaReR   secret ": 200, "Bearer": 401, "Bearer ": 401, "Basic secret": 401, "secret": 401, "Bearersecret": 401},
		"X-Api-Key":     {"secret": 200, " secret ": 200, "Secret": 401, "": 401}, //nolint:gocritic // the spaces are what it is about
		"Api-Key":       {"secret": 200, "other": 401},
	} {
		for value, status := range values {
			w := ask(d, "GET", "/v1/models", "", header, value)
			if w.Code != status || (status == 401) != strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: %q: %d %v", header, value, w.Code, w.Header())
			}
		}
	}
}

// A path with another method says which it has.
func TestMethods(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	for path, allow := range map[string]string{
		"/v1/chat/completions": "POST", "/v1/completions": "POST", "/v1/responses": "POST", "/v1/messages": "POST", "/v1/messages/count_tokens": "POST", "/tokenize": "POST", "/detokenize": "POST",
		"/v1/models": "GET, HEAD", "/v1/models/demo": "GET, HEAD", "/tokenizer_info": "GET, HEAD", "/v1/responses/resp_x.demo": "GET, HEAD, DELETE", "/v1/responses/resp_x.demo/cancel": "POST",
	} {
		for _, method := range []string{"PUT", "PATCH", "OPTIONS", "TRACE"} {
			w := ask(d, method, path, "")
			if w.Code != 405 || w.Header().Get("Allow") != allow || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %s: %d %v %s", method, path, w.Code, w.Header(), w.Body)
			}
		}
	}
	if w := ask(d, "GET", "/v1/messages", ""); w.Code != 405 || !strings.Contains(w.Body.String(), `"type":"error"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func packed(t *testing.T, coding, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return body
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Bodies are read as clients pack them, whole or not at all, and take no more than they may.
func TestPackedBodies(t *testing.T) {
	d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.MaxBody = 64 << 10 })
	const path = "/v1/chat/completions"
	for _, coding := range []string{"gzip", "x-gzip", "deflate", "zstd", "GZIP", "identity", ""} {
		send := func(body string) *httptest.ResponseRecorder {
			return ask(d, "POST", path, body, "Content-Encoding", coding)
		}
		good := packed(t, strings.ToLower(coding), hi+"}")
		if w := send(good); w.Code != 200 {
			t.Errorf("%q: %d %s", coding, w.Code, w.Body)
		}
		if w := send(packed(t, strings.ToLower(coding), "\ufeff"+hi+"}")); w.Code != 200 {
			t.Errorf("%q behind a byte order mark: %d %s", coding, w.Code, w.Body)
		}
		if coding == "" || coding == "identity" {
			continue
		}
		if w := send(packed(t, strings.ToLower(coding), hi+`,"user":"`+strings.Repeat("x", 1<<20)+`"}`)); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%q of a megabyte: %d %s", coding, w.Code, w.Body)
		}
		for _, bad := range []string{"", hi + "}", good[:len(good)/2], "\x1f\x8b\x08", good[:12] + "\xff\xff\xff\xff" + good[16:]} {
			if w := send(bad); w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%q: %.20q: %d %s", coding, bad, w.Code, w.Body)
			}
		}
	}
	if w := ask(d, "POST", path, hi+"}", "Content-Encoding", "br"); w.Code != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Encoding") == "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if d.bodies.Had() != 0 || d.reading.Had() != 0 {
		t.Error("a body has left its room taken")
	}
}

// A client that says all and closes its direction is answered; one that leaves ends its request, also
// where nothing of the answer was sent.
func TestHalfClosed(t *testing.T) {
	for name, tc := range map[string]struct{ path, body, want string }{
		"chat":       {"/v1/chat/completions", hi + "}", "Hello world"},
		"stream":     {"/v1/chat/completions", hi + `,"stream":true}`, "data: [DONE]"},
		"completion": {"/v1/completions", `{"model":"demo","prompt":"x"}`, "Hello world"},
		"response":   {"/v1/responses", `{"model":"demo","input":"x"}`, "Hello world"},
		"events":     {"/v1/responses", `{"model":"demo","input":"x","stream":true}`, "response.completed"},
		"message":    {"/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, "Hello world"},
		"models":     {"/v1/models", "", `"demo"`},
	} {
		u := &fake.Upstream{Holds: make(chan struct{})}
		address := open(t, newDoor(t, u), 8)
		method := "POST"
		if tc.body == "" {
			method = "GET"
		}
		text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method, tc.path, len(tc.body), tc.body)
		leaves := dial(t, address, text)
		if tc.body != "" {
			testkit.Eventually(t, name+" is asked", func() bool { prompts, _ := u.Asked(); return len(prompts) == 1 })
			if err := leaves.Close(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, name+": who leaves is noticed", func() bool { return u.Left() == 1 })
		}
		stays := dial(t, address, text)
		if half, is := stays.(*net.TCPConn); !is || half.CloseWrite() != nil {
			t.Fatal("the connection cannot be closed by half")
		}
		if tc.body != "" {
			testkit.Eventually(t, name+" is asked again", func() bool { prompts, _ := u.Asked(); return len(prompts) == 2 })
		}
		begun := bufio.NewReader(stays)
		if tc.body != "" && !strings.Contains(tc.body, "stream") { // it is asked for a sign, and takes it for none
			if line, err := begun.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Errorf("%s: %q %v", name, line, err)
			}
			_, _ = begun.ReadString('\n')
		}
		close(u.Holds)
		r, err := http.ReadResponse(begun, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.StatusCode == http.StatusContinue {
			if r, err = http.ReadResponse(begun, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), tc.want) {
			t.Errorf("%s: %d %v %s", name, r.StatusCode, err, body)
		}
		if _, err := begun.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		if u.Left() > 1 {
			t.Errorf("%s: who has closed its direction counts as gone", name)
		}
	}
}

// An error names the field that its route has, whatever the services call it.
func TestFieldNames(t *testing.T) {
	chat := func(more string) string { return hi + more + "}" }
	const completion, response, message = `{"model":"demo","prompt":"x"`, `{"model":"demo","input":"x"`, `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	for _, tc := range []struct{ path, body, says, param string }{
		{"/v1/chat/completions", chat(`,"max_completion_tokens":9`), "max_tokens is 9000; it must be less", "max_completion_tokens"},
		{"/v1/chat/completions", chat(`,"max_tokens":9`), "max_tokens is 9000; it must be less", "max_tokens"},
		{"/v1/chat/completions", chat(`,"logprobs":true,"top_logprobs":9`), "logprobs is 30; it must be 0 to 20", "top_logprobs"},
		{"/v1/completions", completion + `,"logprobs":9}`, "logprobs is 30; it must be 0 to 20", "logprobs"},
		{"/v1/completions", completion + `,"max_completion_tokens":9}`, "max_tokens is 9000; it must be less", "max_completion_tokens"},
		{"/v1/completions", completion + `}`, "input_ids[0] is 9; it must be less", "prompt"},
		{"/v1/chat/completions", chat(`,"response_format":{"type":"json_object"}`), "grammar: no", "response_format"},
		{"/v1/chat/completions", chat(`,"guided_regex":"a"`), "grammar: no", "guided_regex"},
		{"/v1/chat/completions", chat(`,"structured_outputs":{"regex":"a"}`), "grammar: no", "structured_outputs.regex"},
		{"/v1/responses", response + "}", "max_tokens is 9000; it must be less", "max_output_tokens"},
		{"/v1/responses", response + "}", "messages[0].role is odd", "input"},
		{"/v1/responses", response + "}", "grammar: no", "text.format"},
		{"/v1/responses", response + `,"stream":true}`, "max_tokens is 9000; it must be less", "max_output_tokens"},
		{"/v1/messages", message + "}", "stop has 17 strings", "stop_sequences"},
		{"/v1/messages", message + `,"stream":true}`, "stop has 17 strings", "stop_sequences"},
		{"/v1/messages", message + `,"output_config":{"format":{"type":"json_schema","schema":{}}}}`, "grammar is odd", "output_config.format"},
	} {
		d := newDoor(t, &fake.Upstream{Fails: &client.Error{Code: client.CodeBadRequest, Message: tc.says}, Answer: func(p *pb.Prompt) []*pb.Chunk { return fake.Words(p, "stop", "x") }})
		w := ask(d, "POST", tc.path, tc.body)
		want := `"param":"` + tc.param + `"`
		if strings.HasPrefix(tc.path, "/v1/messages") { // whose errors have no param
			want = `"message":"` + tc.param + " "
		}
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), `"message":"`+tc.param) && tc.param != "prompt" {
			t.Errorf("%s %s: %q is %d %s", tc.path, tc.body, tc.says, w.Code, w.Body)
		}
	}
}

// Minus one is all that the context has left.
func TestAllThatIsLeft(t *testing.T) {
	for _, tc := range []struct {
		path, body string
		want       *int32
	}{
		{"/v1/chat/completions", hi + `,"max_tokens":-1}`, nil}, {"/v1/chat/completions", hi + `,"max_completion_tokens":-1,"max_tokens":5}`, nil}, {"/v1/responses", `{"model":"demo","input":"x","max_output_tokens":-1}`, nil},
		{"/v1/completions", `{"model":"demo","prompt":"a b c","max_tokens":-1}`, new(int32(509))}, {"/v1/completions", `{"model":"demo","prompt":[1,2],"max_tokens":-1,"echo":true}`, new(int32(510))},
		{"/v1/completions", `{"model":"demo","prompt":"a b c","max_tokens":-1.0}`, new(int32(509))},
	} {
		u := &fake.Upstream{}
		if w := ask(newDoor(t, u), "POST", tc.path, tc.body); w.Code != 200 {
			t.Errorf("%s: %d %s", tc.body, w.Code, w.Body)
			continue
		}
		prompts, _ := u.Asked()
		if got := prompts[0].MaxTokens; (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want || prompts[0].Score != "" {
			t.Errorf("%s: asked %v", tc.body, prompts[0])
		}
	}
	for _, wrong := range []string{"-2", "-1.5", `"-1"`, "-1e9"} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+`,"max_tokens":`+wrong+"}"); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"max_tokens"`) {
			t.Errorf("%s: %d %s", wrong, w.Code, w.Body)
		}
	}
}

// Anthropic's clients list models in their API's form, page by page.
func TestAnthropicModels(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	const demo = `{"type":"model","id":"demo","display_name":"demo","created_at":"1970-01-01T00:00:01Z"}`
	for path, want := range map[string]string{
		"/v1/models":               `{"data":[` + demo + `],"has_more":false,"first_id":"demo","last_id":"demo"}`,
		"/v1/models?limit=1":       `{"data":[` + demo + `],"has_more":false,"first_id":"demo","last_id":"demo"}`,
		"/v1/models?after_id=demo": `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
		"/v1/models/demo":          demo,
		"/v1/models/none":          `{"type":"error","error":{"type":"not_found_error","message":"The model does not exist"}}`,
		"/v1/models?limit=0":       `{"type":"error","error":{"type":"invalid_request_error","message":"limit: Input should be a whole number from 1 to 1000"}}`,
	} {
		if got := ask(d, "GET", path, "", "Anthropic-Version", "2023-06-01").Body.String(); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	all := []anthropic.Model{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
	for _, tc := range []struct {
		most          int
		after, before string
		want          string
		more          bool
	}{{2, "", "", "ab", true}, {2, "b", "", "cd", false}, {1, "b", "", "c", true}, {2, "", "d", "bc", true}, {9, "", "c", "ab", false}, {9, "", "", "abcd", false}, {2, "", "a", "", false}} {
		got := ""
		p := anthropic.PageOf(all, tc.most, tc.after, tc.before)
		for _, m := range p.Data {
			got += m.ID
		}
		if got != tc.want || p.More != tc.more {
			t.Errorf("%+v: %q %v", tc, got, p.More)
		}
	}
}

// A message says which stop string has ended it, and of the model's own end that it is one.
func TestStopSequence(t *testing.T) {
	pieces := map[uint32]string{10: "one ", 11: "two\n", 12: "\nHu", 13: "man:", 14: "</s>", 15: "STOP"}
	for _, tc := range []struct {
		ids    []uint32
		stops  string
		reason string
		finish string
		want   string
	}{
		{[]uint32{10, 11, 12}, `["\n\n"]`, "stop_sequence", "stop", `"\n\n"`},
		{[]uint32{10, 12, 13}, `["x","\nHuman:"]`, "stop_sequence", "stop", `"\nHuman:"`},
		{[]uint32{10, 15}, `["TOP","STOP"]`, "stop_sequence", "stop", `"STOP"`},
		{[]uint32{10, 15}, `["P","ST"]`, "stop_sequence", "stop", `"ST"`},
		{[]uint32{10, 14}, `["two"]`, "end_turn", "stop", "null"},
		{[]uint32{15, 10, 14}, `["STOP"]`, "end_turn", "stop", "null"}, // as in thoughts, which nothing ends
		{[]uint32{10, 15}, `["STOP"]`, "max_tokens", "length", "null"},
		{[]uint32{10, 14}, `[]`, "end_turn", "stop", "null"},
	} {
		u := &fake.Upstream{Pieces: pieces, Answer: func(p *pb.Prompt) []*pb.Chunk {
			chunks := fake.Words(p, tc.finish, make([]string, len(tc.ids))...)
			for i, id := range tc.ids {
				chunks[i].TokenIds = []uint32{id}
			}
			return chunks
		}}
		body := `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stop_sequences":` + tc.stops
		for _, form := range []string{"}", `,"stream":true}`} {
			got := ask(newDoor(t, u), "POST", "/v1/messages", body+form).Body.String()
			if want := `"stop_reason":"` + tc.reason + `","stop_sequence":` + tc.want; !strings.Contains(got, want) {
				t.Errorf("%v of %s: no %s in %s", tc.ids, tc.stops, want, got)
			}
		}
	}
}

// Offsets are those of characters in the text: what a tokenizer puts around it has none, and the
// parts of a character begin where it does.
func TestTextOffsets(t *testing.T) {
	u := &fake.Upstream{Special: true, Answer: func(p *pb.Prompt) []*pb.Chunk {
		chunks := fake.Words(p, "length", "", "", "\u20ac", "b", "", "\U0001f600", "é", "!")
		for i, bytes := range []string{"\xe2", "\x82", "\xac", "b", "\xf0\x9f", "\x98\x80", "é", "!"} {
			chunks[i].Logprobs[0].Chosen.Token = []byte(bytes)
		}
		return chunks
	}}
	for form, want := range map[string]string{`}`: `"text_offset":[0,0,0,1,2,2,3,4]`, `,"echo":true}`: `"text_offset":[0,0,2,5,5,5,6,7,7,8,9]`} {
		if got := ask(newDoor(t, u), "POST", "/v1/completions", `{"model":"demo","prompt":"ä bcd","logprobs":1,"max_tokens":8`+form).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", form, got)
		}
	}
	got := ask(newDoor(t, u), "POST", "/v1/completions", `{"model":"demo","prompt":"ä bcd","logprobs":1,"max_tokens":8,"echo":true,"stream":true}`).Body.String()
	for _, want := range []string{`"text_offset":[0,0,2]`, `"text_offset":[5]`, `"text_offset":[9]`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}
