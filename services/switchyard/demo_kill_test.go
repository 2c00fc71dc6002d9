package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// An answer survives the process that makes it, token by token.
func TestDemoKill(t *testing.T) {
	if testkit.Race {
		t.Skip("what its processes do is raced by tests in one process, in a fraction of the time")
	}
	var out bytes.Buffer
	e := quietEnv()
	e.Out = &out
	n := int32(60)
	c := &DemoCmd{Kill: true, Text: "Once upon a time", MaxTokens: &n, process: func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessInJSON$")
		cmd.Env = append(os.Environ(), processArgs+"="+strings.Join(args, " "))
		return cmd
	}}
	if err := c.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "── kill -9 attention-") || !strings.HasPrefix(got, "Once upon a time, there was") {
		t.Errorf("%s", got)
	}
}
