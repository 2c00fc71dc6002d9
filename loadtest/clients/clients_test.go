// Package clients lets clients that we did not write stream answers from a
// running server: nats-py and the nats command line. They know the contract
// and nothing else of ours.
//
//	pip install nats-py
//	go install github.com/nats-io/natscli/nats@v0.4.0
//	SWITCHYARD_URL=nats://127.0.0.1:4222 go test ./loadtest/clients
//
// SWITCHYARD_PYTHON and SWITCHYARD_NATS_CLI name the programs if they are not
// python3 and nats; SWITCHYARD_MODEL the model if it is not demo.
package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	text    = "Once upon a time"
	patient = 2 * time.Minute
)

// setup returns the server's URL and a program; it skips the test without them.
func setup(t *testing.T, variable, program string) (url, path string) {
	t.Helper()
	url = os.Getenv("SWITCHYARD_URL")
	if url == "" {
		t.Skip("SWITCHYARD_URL is not set: it names the NATS server of a running Switchyard")
	}
	if named := os.Getenv(variable); named != "" {
		program = named
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not here; install it, or name it in %s: %v", program, variable, err)
	}
	return url, path
}

func model() string {
	if name := os.Getenv("SWITCHYARD_MODEL"); name != "" {
		return name
	}
	return "demo"
}

// command runs a program that is killed when the test ends.
func command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, path, args...)
	c.WaitDelay = time.Second
	return c
}

func output(t *testing.T, path string, args ...string) string {
	t.Helper()
	c := command(t, path, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, out, &stderr)
	}
	return string(out)
}

// chunk is what a client reads of a JSON chunk. Pointers tell a missing
// field from a zero.
type chunk struct {
	RequestID    string `json:"request_id"`
	Index        *int   `json:"index"`
	Text         string `json:"text"`
	FinishReason string `json:"finish_reason"`
	Usage        *struct {
		PromptTokens     *int `json:"prompt_tokens"`
		CompletionTokens *int `json:"completion_tokens"`
	} `json:"usage"`
	Timings *struct {
		Total *float64 `json:"total"`
	} `json:"timings"`
}

// check wants a terminal chunk with everything that one has.
func (c *chunk) check(t *testing.T) {
	t.Helper()
	switch {
	case c.FinishReason != "stop" && c.FinishReason != "length":
		t.Errorf("finish_reason is %q", c.FinishReason)
	case c.RequestID == "" || c.Index == nil:
		t.Error("request_id or index is missing")
	case c.Usage == nil || c.Usage.PromptTokens == nil || c.Usage.CompletionTokens == nil || *c.Usage.CompletionTokens < 1:
		t.Error("usage is missing or zero")
	case c.Timings == nil || c.Timings.Total == nil:
		t.Error("timings are missing")
	}
}

// TestNatsPy wants the same answer through both doors.
func TestNatsPy(t *testing.T) {
	url, python := setup(t, "SWITCHYARD_PYTHON", "python3")
	if err := command(t, python, "-c", "import nats").Run(); err != nil {
		t.Skipf("%s has no nats-py; install it with pip install nats-py: %v", python, err)
	}
	var got struct {
		Ask struct {
			Text    string
			Headers map[string]string
		}
		Prompt struct {
			Stream, Text string
			Indices      []int
			Last         chunk
		}
	}
	out := output(t, python, "client.py", url, model(), text)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("reading %q: %v", out, err)
	}
	got.Prompt.Last.check(t)
	if got.Ask.Text == "" || !strings.HasPrefix(got.Ask.Text, got.Prompt.Text) && !strings.HasPrefix(got.Prompt.Text, got.Ask.Text) {
		t.Errorf("ask said %q and prompt %q", got.Ask.Text, got.Prompt.Text)
	}
	if got.Ask.Headers["Switchyard-Index"] == "" {
		t.Errorf("the last message's headers are %v", got.Ask.Headers)
	}
	for i, index := range got.Prompt.Indices {
		if i != index {
			t.Errorf("indices are %v", got.Prompt.Indices)
			break
		}
	}
}

// TestNatsCLIAsk is the one line of the documentation. An answer that pauses
// for longer than the tool waits by itself (0.3 s) must come whole, too.
func TestNatsCLIAsk(t *testing.T) {
	url, nats := setup(t, "SWITCHYARD_NATS_CLI", "nats")
	ask := func(url string) string {
		return output(t, nats, "--server", url, "req", "switchyard.ask."+model(), text,
			"--wait-for-empty", "--raw", "--timeout", "60s", "--reply-timeout", "60s")
	}
	straight := ask(url)
	if !strings.HasSuffix(strings.TrimSpace(straight), "nil body") {
		t.Errorf("the answer %q has no end", straight)
	}
	if paused := ask(startPausing(t, url)); paused != straight {
		t.Errorf("with a pause the answer is %q, without %q", paused, straight)
	}
}

// TestNatsCLIPrompt subscribes in one process and publishes in another: the
// answer goes to reply_to, whoever listens there.
func TestNatsCLIPrompt(t *testing.T) {
	url, nats := setup(t, "SWITCHYARD_NATS_CLI", "nats")
	inbox := fmt.Sprintf("clients.%d", time.Now().UnixNano())
	lines := subscribe(t, url, nats, inbox)
	body := fmt.Sprintf(`{"text": %q, "reply_to": %q, "max_tokens": 8}`, text, inbox)
	ack := output(t, nats, "--server", url, "req", "switchyard.prompt."+model(), body, "--raw", "--timeout", "10s")
	if !strings.Contains(ack, `"stream"`) {
		t.Fatalf("the acknowledgement is %q", ack)
	}
	answer := ""
	for line := range lines {
		var c chunk
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("reading %q: %v", line, err)
		}
		answer += c.Text
		if c.FinishReason != "" {
			c.check(t)
			if answer == "" {
				t.Error("the answer is empty")
			}
			return
		}
	}
	t.Errorf("the stream ended after %q without an end", answer)
}

// subscribe returns the lines that arrive on a subject, from when the
// subscription works: until then it publishes a word to it.
func subscribe(t *testing.T, url, nats, subject string) <-chan string {
	t.Helper()
	c := command(t, nats, "--server", url, "sub", subject, "--raw")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines, works := make(chan string, 1024), make(chan struct{}, 1)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			switch line := strings.TrimSpace(scanner.Text()); line {
			case "":
			case ready:
				select {
				case works <- struct{}{}:
				default:
				}
			default:
				lines <- line
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		for range lines {    // until the reader has ended, which Wait must not overtake
		}
		_ = c.Wait() // killed is how it is meant to end
	})
	awaitReady(t, url, nats, subject, works)
	return lines
}

const ready = "ready?"

func awaitReady(t *testing.T, url, nats, subject string, works <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		output(t, nats, "--server", url, "pub", subject, ready)
		select {
		case <-works:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
	t.Fatal("the subscription does not work after 20 s")
}
