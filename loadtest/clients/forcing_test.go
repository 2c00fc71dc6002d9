package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// forcing stands between an agent and a gateway. It has the model call a tool so many times, and
// end its answer then: a model that knows nothing would do neither. All else of what the agent
// sends goes on as it is.
type forcing struct {
	t       *testing.T
	tool    string // that is called
	command string // the argument that has a shell's command; it says which turn it is of
	turns   int    // with calls
	proxy   *httputil.ReverseProxy

	mu      sync.Mutex
	called  int
	results int // that the agent has sent
	ended   int // answers without a call, of conversations that have all results
	refused []string
	capture string // the folder for bodies; empty: they are not kept
	bodies  int
}

// said is what the turn's command prints.
func said(turn int) string { return fmt.Sprintf("switchyard-turn-%d", turn) }

const ending = "done here"

func force(t *testing.T, gateway, tool, command string, turns int) (f *forcing, at string) {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	f = &forcing{t: t, tool: tool, command: command, turns: turns}
	f.proxy = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ModifyResponse: f.answered}
	if dir := os.Getenv("SWITCHYARD_CAPTURE"); dir != "" {
		f.capture = filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"))
		if err := os.MkdirAll(f.capture, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

// ServeHTTP passes a request on.
func (f *forcing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the agent is gone
		}
		f.keep(body)
		body = f.change(r.URL.Path, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	f.proxy.ServeHTTP(w, r)
}

func (f *forcing) keep(body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies++
	if f.capture == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(f.capture, fmt.Sprintf("%02d.json", f.bodies)), body, 0o644); err != nil {
		f.t.Error(err)
	}
}

// answered notes what a gateway refuses. Agents ask some paths that no gateway has, which they do
// without.
func (f *forcing) answered(r *http.Response) error {
	if r.StatusCode == http.StatusOK || r.Request.Method != http.MethodPost {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, fmt.Sprintf("%s %d %s", r.Request.URL.Path, r.StatusCode, body))
	return nil
}

type object = map[string]json.RawMessage

// change has a body ask for the next call, or for the end.
func (f *forcing) change(path string, body []byte) []byte {
	var all object
	if json.Unmarshal(body, &all) != nil {
		return body
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	results := 0
	for i := 1; i <= f.called; i++ { // an agent tells what the command has printed, and how it was called
		if strings.Count(string(body), said(i)) > 1 {
			results = i
		}
	}
	f.results = max(f.results, results)
	switch {
	case f.called < f.turns && results == f.called && f.narrow(path, all):
		f.called++
	default:
		end(path, all)
		if results == f.turns {
			f.ended++
		}
	}
	changed, err := json.Marshal(all)
	if err != nil {
		f.t.Error(err)
	}
	return changed
}

// narrow leaves the tool one command, and has it be called; false: the body does not offer it.
func (f *forcing) narrow(path string, all object) bool {
	var tools []object
	if json.Unmarshal(all["tools"], &tools) != nil {
		return false
	}
	for _, tool := range tools {
		of, schema := tool, "parameters"
		switch {
		case strings.HasSuffix(path, "/messages"):
			schema = "input_schema"
		case strings.HasSuffix(path, "/completions"):
			if of = nil; json.Unmarshal(tool["function"], &of) != nil {
				continue
			}
		}
		if string(of["name"]) != quote(f.tool) {
			continue
		}
		properties, required := object{}, []string{f.command}
		var was struct {
			Required   []string
			Properties map[string]struct{ Type any }
		}
		_ = json.Unmarshal(of[schema], &was) // it may say nothing
		for _, name := range was.Required {
			if name != f.command {
				properties[name], required = raw(map[string]any{"enum": []any{anyOf(was.Properties[name].Type)}}), append(required, name)
			}
		}
		properties[f.command] = raw(object{"enum": raw([]string{"echo " + said(f.called+1)})})
		of[schema] = raw(object{"type": raw("object"), "properties": raw(properties), "required": raw(required), "additionalProperties": raw(false)})
		if strings.HasSuffix(path, "/completions") {
			tool["function"] = raw(of)
		}
		all["tools"], all["tool_choice"] = raw(tools), choice(path, f.tool)
		return true
	}
	return false
}

// anyOf is a value of a type.
func anyOf(kind any) any {
	switch kind {
	case "boolean":
		return false
	case "number", "integer":
		return 1
	}
	return "a test"
}

func choice(path, tool string) json.RawMessage {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return raw(map[string]any{"type": "tool", "name": tool, "disable_parallel_tool_use": true})
	case strings.HasSuffix(path, "/responses"):
		return raw(map[string]any{"type": "function", "name": tool})
	}
	return raw(map[string]any{"type": "function", "function": map[string]string{"name": tool}})
}

// end has the answer be a text.
func end(path string, all object) {
	schema := map[string]any{"enum": []string{ending}}
	switch {
	case strings.HasSuffix(path, "/messages"):
		config := object{}
		_ = json.Unmarshal(all["output_config"], &config) // it may be absent
		config["format"] = raw(map[string]any{"type": "json_schema", "schema": schema})
		all["output_config"] = raw(config)
	case strings.HasSuffix(path, "/responses"):
		text := object{}
		_ = json.Unmarshal(all["text"], &text) // as above
		text["format"] = raw(map[string]any{"type": "json_schema", "name": "end", "schema": schema})
		all["text"] = raw(text)
	case strings.HasSuffix(path, "/completions"):
		all["response_format"] = raw(map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "end", "schema": schema}})
	}
}

func raw(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // what tests write here is JSON
	}
	return out
}

func quote(text string) string { return string(raw(text)) }

// check wants all turns to have been, and nothing to be refused.
func (f *forcing) check(out string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, refused := range f.refused {
		f.t.Errorf("refused: %s", refused)
	}
	if f.called != f.turns || f.results != f.turns || f.ended == 0 {
		f.t.Errorf("%d calls, %d results, and %d ends, in %d requests; want %d calls and their results\n%s", f.called, f.results, f.ended, f.bodies, f.turns, out)
	}
	if !strings.Contains(out, ending) {
		f.t.Errorf("the agent does not tell the answer %q:\n%s", ending, out)
	}
}
