package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
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
		{"token ids", "", []string{"prompt", "--ids", "5,6", "--ids", "7"}, result{0, "5 6 7\n", ""}},
		{"ids and text", "", []string{"prompt", "hi", "--ids", "5"}, result{2, "", "--ids takes the place of a text"}},
		{"not UTF-8", "", []string{"prompt", "a\xff"}, result{2, "", `switchyard: argument 4 ("a\xff") is not UTF-8: byte 1 is invalid`}},
		{"stdin not UTF-8", "a\xff", []string{"prompt"}, result{2, "", "the prompt on stdin is not UTF-8: byte 1"}},
		{"stop not UTF-8", "", []string{"prompt", "hi", "--stop", "\xff"}, result{2, "", "is not UTF-8: byte 0"}},
		{"tools without chat", "", []string{"prompt", "hi", "--tools", "[]"}, result{2, "", "need --chat"}},
		{"system without chat", "", []string{"prompt", "hi", "--system", "be brief"}, result{2, "", "--system needs --chat"}},
		{"logprobs without JSON", "", []string{"prompt", "hi", "--logprobs", "2"}, result{2, "", "--logprobs needs --json"}},
		{"deadline gone by", "", []string{"prompt", "hi", "--deadline=-1s"}, result{2, "", "--deadline is -1s"}},
		{"statistics", "", []string{"prompt", "a b", "--stats"}, result{0, "a b\n", "length after 2 tokens (prompt 0): first token in 0 ms, seed 0, request "}},
		{"too large", strings.Repeat("x", 2<<20), []string{"prompt"}, result{2, "", "payload_too_large"}},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := f.invoke(tt.stdin, tt.args...)
			if got.Code != tt.want.Code || got.Out != tt.want.Out || !strings.Contains(got.Err, tt.want.Err) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if tt.want.Err == "" && got.Err != "" {
				t.Errorf("stderr in a pipe has %q", got.Err)
			}
		})
	}
}

func TestPromptFlags(t *testing.T) {
	f, before := startFake(t), time.Now()
	got := f.invoke("", "prompt", "a b", "--max-tokens=5", "--temperature=0.5", "--top-p=0.9", "--top-k=3",
		"--seed=7", "--stop", "x,y", "--stop", "z", "--deadline=1m", "--request-id=one",
		"--ignore-eos", "--repetition-penalty=1.1", "--stop-token-id=3,4", "--logprobs=2", "--json")
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	p := f.last()
	if *p.MaxTokens != 5 || *p.Temperature != 0.5 || *p.TopP != 0.9 || *p.TopK != 3 || *p.Seed != 7 || p.RequestId != "one" {
		t.Errorf("sent %v", p)
	}
	if !p.IgnoreEos || *p.RepetitionPenalty != 1.1 || len(p.StopTokenIds) != 2 || *p.Logprobs != 2 {
		t.Errorf("sent %v", p)
	}
	if len(p.Stop) != 2 || p.Stop[0] != "x,y" || p.Stop[1] != "z" {
		t.Errorf("stop is %q", p.Stop)
	}
	at, err := time.Parse(time.RFC3339Nano, p.Deadline)
	if err != nil || at.Before(before.Add(time.Minute)) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("deadline is %s: %v", p.Deadline, err)
	}
}

func TestPromptChat(t *testing.T) {
	system := "be brief"
	for name, tt := range map[string]struct {
		system *string
		want   string
	}{
		"user":   {nil, "user:hi"},
		"system": {&system, "system:be brief user:hi"},
	} {
		c := PromptCmd{Chat: true, Text: []string{"hi"}, System: tt.system}
		p, err := c.prompt(t.Context(), &cli.Env{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range p.Messages {
			got = append(got, m.Role+":"+m.GetContent())
		}
		if p.Text != "" || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q and text %q", name, got, p.Text)
		}
	}
}

func TestPromptJSON(t *testing.T) {
	f := startFake(t)
	got := f.invoke("", "prompt", "a b", "--json")
	lines := strings.Split(strings.TrimSuffix(got.Out, "\n"), "\n")
	if got.Code != 0 || len(lines) != 3 {
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
	testkit.Eventually(t, "the prompt's arrival", func() bool { return f.last() != nil })
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.Code != cli.ExitInterrupted || !strings.Contains(got.Err, "interrupted") {
		t.Errorf("got %+v", got)
	}
	testkit.Eventually(t, "the cancellation", f.wasCancelled)
}

// TestPromptDeadline has servers whose clock does not come to the deadline.
func TestPromptDeadline(t *testing.T) {
	f := startFake(t)
	const deadline = 100 * time.Millisecond
	var out triggered
	var errOut sharedText
	begun := time.Now()
	ending := func(ctx context.Context, end time.Time, why error) (context.Context, context.CancelFunc) {
		if least, most := begun.Add(deadline+deadlineGrace), time.Now().Add(deadline+deadlineGrace); end.Before(least) || end.After(most) {
			t.Errorf("it ends at %v, want %v to %v", end, least, most)
		}
		ctx, stop := context.WithCancelCause(ctx)
		out.then = func() { stop(why) } // at the first chunk
		return ctx, func() { stop(nil) }
	}
	args := []string{"--nats", f.url, "prompt", "hang forever", "--deadline", deadline.String()}
	code := runWaiting(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut}, cli.Waits{Ending: ending})
	if code != cli.ExitFailed || out.String() != "hang \n" || !strings.Contains(errOut.String(), "within --deadline 100ms and 5s more by this machine's clock") {
		t.Errorf("got %d, %q, %q", code, out.String(), errOut.String())
	}
	testkit.Eventually(t, "the cancellation", f.wasCancelled)
}

// noted is a stdin that knows when it was read to its end.
type noted struct {
	io.Reader
	end time.Time
}

func (n *noted) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err != nil {
		n.end = time.Now()
	}
	return read, err
}

// A deadline does not run while the prompt is read.
func TestPromptDeadlineBehindStdin(t *testing.T) {
	f := startFake(t)
	in := &noted{Reader: strings.NewReader("hi")}
	var errOut sharedText
	code := run([]string{"--nats", f.url, "prompt", "--deadline", "1m"}, cli.Stdio{In: in, Out: io.Discard, Err: &errOut})
	if code != cli.ExitDone {
		t.Fatalf("got %d, %q", code, errOut.String())
	}
	deadline, err := time.Parse(time.RFC3339Nano, f.last().Deadline)
	if least := in.end.Add(time.Minute); err != nil || deadline.Before(least) {
		t.Errorf("the deadline is %v, want %v at least: %v", deadline, least, err)
	}
}

// triggered calls then when something is written.
type triggered struct {
	strings.Builder
	then func()
}

func (o *triggered) Write(p []byte) (int, error) {
	o.then()
	return o.Builder.Write(p)
}

// The longest deadline is no time that has passed.
func TestPromptLongestDeadline(t *testing.T) {
	ctx, cancel := (&PromptCmd{Deadline: math.MaxInt64}).bounded(t.Context(), &pb.Prompt{}, cli.Waits{})
	defer cancel()
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
}

// brokenPipe is a stdout that fails.
type brokenPipe struct{ err error }

func (b brokenPipe) Write([]byte) (int, error) { return 0, b.err }

// A stdout that takes no more cancels the request. A reader that went away, as
// head does, is no news.
func TestPromptReaderGone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"full disk", errors.New("no space"), "switchyard: writing the answer: no space\n"},
		{"reader gone", &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			var errOut sharedText
			code := run([]string{"--nats", f.url, "prompt", "hang forever"}, cli.Stdio{In: strings.NewReader(""), Out: brokenPipe{tt.err}, Err: &errOut})
			if code != cli.ExitFailed || errOut.String() != tt.want {
				t.Errorf("got %d %q", code, errOut.String())
			}
			testkit.Eventually(t, "the cancellation", f.wasCancelled)
		})
	}
}

// TestPromptOutage takes NATS away under a prompt.
func TestPromptOutage(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	done := make(chan result, 1)
	go func() {
		done <- invokePatiently(t, "--nats", f.url, "prompt", "hang forever", "--connect-timeout", "100ms")
	}()
	testkit.Eventually(t, "the prompt's arrival", func() bool { return f.last() != nil })
	f.server.Shutdown()
	if got := <-done; got.Code != cli.ExitNoServer || !strings.Contains(got.Err, "NATS has been away for") {
		t.Errorf("got %+v", got)
	}
}
