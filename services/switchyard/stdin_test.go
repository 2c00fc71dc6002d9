package main

import (
	"context"
	"io"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A signal ends a command also while it waits for more on stdin.
func TestSignalWhileReading(t *testing.T) {
	for _, tt := range []struct {
		first string
		args  []string
	}{
		{`{"text":"a"}` + "\n", []string{"tokenize", "--tokenizer", "../../models/demo"}},
		{"Once upon", []string{"prompt"}},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			in, rest := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			go func() { ended <- runUntil(ctx, tt.args, cli.Stdio{In: in, Out: io.Discard, Err: io.Discard}) }()
			if _, err := io.WriteString(rest, tt.first); err != nil {
				t.Fatal(err)
			}
			cancel()
			testkit.Eventually(t, "the end", func() bool { return len(ended) > 0 })
			if code := <-ended; code != cli.ExitInterrupted {
				t.Errorf("code %d", code)
			}
			_ = rest.Close() // lets go of the read
		})
	}
}
