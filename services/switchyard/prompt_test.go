package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPrompt(t *testing.T) {
	f := startFake(t)
	tests := []struct {
		name  string
		stdin string
		args  []string
		want  result // err: a part of it
	}{
		{"argument", "", []string{"prompt", "Once upon a time"}, result{0, "Once upon a time\n", ""}},
		{"arguments", "", []string{"prompt", "Once", "upon"}, result{0, "Once upon\n", ""}},
		{"stdin", "From a pipe\n", []string{"prompt"}, result{0, "From a pipe\n", ""}},
		{"no such model", "", []string{"prompt", "hi", "--model", "other"}, result{1, "", "model_not_found"}},
		{"error at the end", "", []string{"prompt", "fail now"}, result{1, "fail \n", "deadline_exceeded: too slow"}},
		{"unusable id", "", []string{"prompt", "hi", "--request-id", "a.b"}, result{2, "", "bad_request"}},
		{"too large", strings.Repeat("x", 2<<20), []string{"prompt"}, result{2, "", "payload_too_large"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f.invoke(tt.stdin, tt.args...)
			if got.code != tt.want.code || got.out != tt.want.out || !strings.Contains(got.err, tt.want.err) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if tt.want.err == "" && got.err != "" {
				t.Errorf("stderr in a pipe has %q", got.err)
			}
		})
	}
}

func TestPromptFlags(t *testing.T) {
	f := startFake(t)
	got := f.invoke("", "prompt", "a b", "--max-tokens=5", "--temperature=0.5", "--top-p=0.9", "--top-k=3",
		"--seed=7", "--stop", "x,y", "--stop", "z", "--deadline=1m", "--request-id=one")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	p := f.last()
	if *p.MaxTokens != 5 || *p.Temperature != 0.5 || *p.TopP != 0.9 || *p.TopK != 3 || *p.Seed != 7 || p.RequestId != "one" {
		t.Errorf("sent %v", p)
	}
	if len(p.Stop) != 2 || p.Stop[0] != "x,y" || p.Stop[1] != "z" {
		t.Errorf("stop is %q", p.Stop)
	}
	at, err := time.Parse(time.RFC3339, p.Deadline)
	if left := time.Until(at); err != nil || left < 30*time.Second || left > time.Minute {
		t.Errorf("deadline is %s: %v", p.Deadline, err)
	}
}

func TestPromptChat(t *testing.T) {
	c := PromptCmd{Chat: true}
	if p := c.prompt("hi"); p.Text != "" || len(p.Messages) != 1 || p.Messages[0].Role != "user" || p.Messages[0].Content != "hi" {
		t.Errorf("got %v", p)
	}
}

func TestPromptJSON(t *testing.T) {
	f := startFake(t)
	got := f.invoke("", "prompt", "a b", "--json")
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if got.code != 0 || len(lines) != 3 {
		t.Fatalf("got %+v", got)
	}
	var last struct {
		Index        *int   `json:"index"`
		FinishReason string `json:"finish_reason"`
		Usage        struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(lines[2]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Index == nil || last.FinishReason != "length" || last.Usage.CompletionTokens != 2 {
		t.Errorf("the last line is %s", lines[2])
	}
	if !strings.Contains(lines[0], `"index":0,"text":"a "`) {
		t.Errorf("the first line is %s", lines[0])
	}
}

// TestPromptInterrupted sends this process a real signal.
func TestPromptInterrupted(t *testing.T) {
	f := startFake(t)
	done := make(chan result, 1)
	go func() { done <- f.invoke("", "prompt", "hang forever") }()
	await(t, "the prompt's arrival", func() bool { return f.last() != nil })
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.code != exitInterrupted || !strings.Contains(got.err, "interrupted") {
		t.Errorf("got %+v", got)
	}
	await(t, "the cancellation", f.wasCancelled)
}

// brokenPipe is a stdout whose reader has gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestPromptReaderGone(t *testing.T) {
	f := startFake(t)
	var errOut strings.Builder
	code := run([]string{"--nats", f.url, "prompt", "hang forever"}, stdio{in: strings.NewReader(""), out: brokenPipe{}, err: &errOut})
	if code != exitFailed || !strings.Contains(errOut.String(), "broken pipe") {
		t.Errorf("got %d %q", code, errOut.String())
	}
	await(t, "the cancellation", f.wasCancelled)
}
