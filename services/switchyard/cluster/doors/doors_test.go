// Package doors asks whole pipelines by HTTP, through the gateway of the same process.
package doors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// door is a pipeline, of the demo model unless a test says otherwise, and its gateway's URL.
type door struct {
	clustertest.Cluster
	url  string
	http *http.Client
}

// context bounds prompt and answer, so that a chat which has no other bound ends soon.
const context = 96

func open(t testing.TB) *door {
	t.Helper()
	return openOf(t, clustertest.Demo(t), clustertest.Context(context))
}

// openOf is a pipeline of a model, changed, and its gateway's URL.
func openOf(t testing.TB, m *model.Model, changes ...clustertest.Change) *door {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	y := clustertest.Start(t, m, append(changes, func(s *cluster.Settings) {
		s.Count["gateway"] = 1
		s.Services.Set("gateway", gateway.Config{Listener: l, MaxBody: 4 << 20, MaxStreams: 256, MaxConns: 512, Stall: testkit.Patience})
	})...)
	d := &door{y, "http://" + l.Addr().String(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(d.http.CloseIdleConnections)
	testkit.Eventually(t, "the gateway is ready", func() bool {
		status, _ := d.get(t, "/readyz")
		return status == http.StatusOK
	})
	return d
}

// post asks, and reads the whole answer.
func (d *door) post(t testing.TB, path, body string) (status int, answer string) {
	t.Helper()
	return d.read(t, http.MethodPost, path, body)
}

// do sends a request.
func (d *door) do(t testing.TB, method, path, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// read sends a request, and reads the whole answer.
func (d *door) read(t testing.TB, method, path, body string) (status int, answer string) {
	t.Helper()
	r := d.do(t, method, path, body)
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(data)
}

func (d *door) get(t testing.TB, path string) (status int, answer string) {
	t.Helper()
	return d.read(t, http.MethodGet, path, "")
}

// text is what a NATS client gets.
func (d *door) text(t testing.TB, p *pb.Prompt) (text string) {
	t.Helper()
	for c, err := range d.Ask(t, p) {
		if err == nil {
			err = client.Failure(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		text += c.Text
	}
	return text
}

type answer struct {
	Choices []struct {
		Text     string
		Message  struct{ Content string }
		Delta    struct{ Content string }
		Logprobs struct {
			Tokens        []string
			TokenLogprobs []*float64           `json:"token_logprobs"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	}
}

func read(t testing.TB, text string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// Answers by HTTP, whole and in events, are those by NATS.
func TestDoorsAgree(t *testing.T) {
	t.Parallel()
	d := open(t)
	const story = "Once upon a time"
	want := d.text(t, &pb.Prompt{Text: story, MaxTokens: new(int32(24))})
	t.Run("completion", func(t *testing.T) {
		_, body := d.post(t, "/v1/completions", `{"model":"demo","prompt":"`+story+`","max_tokens":24}`)
		if a := read(t, body); a.Choices[0].Text != want || a.Usage.CompletionTokens != 24 || a.Choices[0].FinishReason != "length" {
			t.Errorf("%s, want %q", body, want)
		}
	})
	t.Run("stream", func(t *testing.T) {
		_, body := d.post(t, "/v1/completions", `{"model":"demo","prompt":"`+story+`","max_tokens":24,"stream":true}`)
		got := ""
		for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
			if data, is := strings.CutPrefix(lines.Text(), "data: {"); is {
				got += read(t, "{"+data).Choices[0].Text
			}
		}
		if got != want || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("chat without max_tokens", func(t *testing.T) {
		_, body := d.post(t, "/v1/chat/completions", `{"model":"org/demo","messages":[{"role":"user","content":"Hi"}],"ignore_eos":true}`)
		if a := read(t, body); a.Usage.PromptTokens+a.Usage.CompletionTokens != context {
			t.Errorf("%s: a chat gets the rest of the context", body)
		}
	})
	t.Run("echo", func(t *testing.T) {
		_, body := d.post(t, "/v1/completions", `{"model":"demo","prompt":"`+story+`","max_tokens":1,"echo":true,"logprobs":2}`)
		l := read(t, body).Choices[0].Logprobs
		if n := len(l.Tokens); n != 6 || l.TokenLogprobs[0] != nil || len(l.TopLogprobs[3]) < 2 || l.Tokens[1] != "Once" {
			t.Errorf("%s", body)
		}
		best := 0
		for i := 1; i < len(l.Tokens); i++ {
			if *l.TokenLogprobs[i] != l.TopLogprobs[i][l.Tokens[i]] {
				t.Errorf("token %d has two log-probabilities: %s", i, body)
			}
			top := true
			for _, lp := range l.TopLogprobs[i] {
				top = top && lp <= *l.TokenLogprobs[i]
			}
			if top {
				best++
			}
		}
		if best == 0 {
			t.Errorf("not even the greedy token is the likeliest: %s", body)
		}
	})
	t.Run("tokens", func(t *testing.T) {
		_, body := d.post(t, "/tokenize", `{"model":"demo","prompt":"Once upon a time"}`)
		var got struct {
			Tokens []uint32
			Count  int
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Count != 5 {
			t.Fatalf("%s", body)
		}
		ids, _ := json.Marshal(got.Tokens[1:])
		if _, body := d.post(t, "/detokenize", `{"model":"demo","tokens":`+string(ids)+`}`); body != `{"prompt":"Once upon a time"}` {
			t.Errorf("%s", body)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		for _, want := range []string{`vllm:num_requests_running{`, `vllm:kv_cache_usage_perc{`, `vllm:time_to_first_token_seconds_count{`, `switchyard_http_requests_total{`} {
			testkit.Eventually(t, "metrics have "+want, func() bool { _, page := d.get(t, "/metrics"); return strings.Contains(page, want) })
		}
	})
}

// A response in the background is told by its events, from any of them on, without one twice.
func TestBackground(t *testing.T) {
	t.Parallel()
	d := open(t)
	_, body := d.post(t, "/v1/responses", `{"model":"demo","input":"Hello","background":true,"max_output_tokens":40}`)
	var r struct {
		ID, Status string
		Output     []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || r.Status != "queued" {
		t.Fatalf("%s", body)
	}
	testkit.Eventually(t, "it ends", func() bool {
		_, body = d.get(t, "/v1/responses/"+r.ID)
		return json.Unmarshal([]byte(body), &r) == nil && (r.Status == "completed" || r.Status == "incomplete")
	})
	_, all := d.get(t, "/v1/responses/"+r.ID+"?stream=true")
	_, rest := d.get(t, "/v1/responses/"+r.ID+"?stream=true&starting_after=6")
	if _, after, found := strings.Cut(all, `"sequence_number":6,`); !found || !strings.HasSuffix(after, rest) || strings.Contains(rest, `"sequence_number":6,`) {
		t.Errorf("all are\n%s\nbehind 6 are\n%s", all, rest)
	}
	var text strings.Builder
	for lines := bufio.NewScanner(strings.NewReader(all)); lines.Scan(); {
		var e struct{ Type, Delta string }
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is && json.Unmarshal([]byte(data), &e) == nil && e.Type == "response.output_text.delta" {
			text.WriteString(e.Delta)
		}
	}
	if text.String() != r.Output[0].Content[0].Text {
		t.Errorf("events tell %q, the response %q", &text, r.Output[0].Content[0].Text)
	}
	testkit.Eventually(t, "a response is refused that cannot be made", func() bool {
		status, _ := d.post(t, "/v1/responses", `{"model":"demo","input":"Hello","background":true,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"none such"}}}}`)
		return status == http.StatusBadRequest
	})
	testkit.Eventually(t, "an unknown response is not found", func() bool { // until a tokenizer says so, it counts as queued
		status, _ := d.get(t, "/v1/responses/resp_UNKNOWN.demo")
		return status == http.StatusNotFound
	})
}

// BenchmarkDoors compares the gateway with a NATS client: 64 tokens of each of so many at once.
func BenchmarkDoors(b *testing.B) {
	d := open(b)
	const tokens = 64
	doors := map[string]func() (first time.Duration, n int){
		"nats": func() (first time.Duration, n int) {
			began := time.Now()
			for c, err := range d.Ask(b, &pb.Prompt{Text: "Once upon a time", MaxTokens: new(int32(tokens)), IgnoreEos: true}) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n == 1 {
					first = time.Since(began)
				}
				_ = c
			}
			return first, n
		},
		"http": func() (first time.Duration, n int) {
			began := time.Now()
			body := fmt.Sprintf(`{"model":"demo","prompt":"Once upon a time","max_tokens":%d,"ignore_eos":true,"stream":true}`, tokens)
			r := d.do(b, http.MethodPost, "/v1/completions", body)
			defer func() { _ = r.Body.Close() }()
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				if !bytes.HasPrefix(lines.Bytes(), []byte("data: {")) {
					continue
				}
				if n++; n == 1 {
					first = time.Since(began)
				}
			}
			return first, n
		},
	}
	for _, batch := range []int{1, 32} {
		for _, name := range []string{"nats", "http"} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, batch), func(b *testing.B) {
				var mu sync.Mutex
				var firsts time.Duration
				for b.Loop() {
					var all sync.WaitGroup
					for range batch {
						all.Go(func() {
							first, _ := doors[name]()
							mu.Lock()
							firsts += first
							mu.Unlock()
						})
					}
					all.Wait()
				}
				b.ReportMetric(float64(tokens*batch*b.N)/b.Elapsed().Seconds(), "tokens/s")
				b.ReportMetric(firsts.Seconds()*1000/float64(batch*b.N), "ttft-ms")
			})
		}
	}
}
