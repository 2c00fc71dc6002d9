package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// TestMain has commands wait for a server as long as a busy machine may take.
func TestMain(m *testing.M) {
	if err := os.Setenv("SWITCHYARD_CONNECT_TIMEOUT", testkit.Patience.String()); err != nil {
		panic(err)
	}
	testleaks.Main(m)
}

// result is what a command did.
type result struct {
	Code     int
	Out, Err string
}

// invoke runs a command line as switchyard does: of this program in this process, of switchyard in one of
// its own.
func invoke(stdin string, args ...string) result {
	if !cli.IsLabCommand(args) {
		return serve(stdin, args)
	}
	var out, errOut bytes.Buffer
	code := program.Run(args, cli.Stdio{In: strings.NewReader(stdin), Out: &out, Err: &errOut})
	return result{code, out.String(), errOut.String()}
}

// write makes a file of a test and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// product builds both programs once, and returns the path of switchyard.
var product = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "switchyard-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, cli.Product)
	if said, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "github.com/switchyard/switchyard/services/switchyard", "github.com/switchyard/switchyard/loadtest/switchyard-lab").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building switchyard: %w: %s", err, said)
	}
	return path, nil
})

// serve runs a command line of switchyard itself.
func serve(stdin string, args []string) result {
	path, err := product()
	if err != nil {
		return result{Code: -1, Err: err.Error()}
	}
	var out, errOut bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil {
		return result{Code: -1, Err: err.Error()}
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// solve asks for a plan of the smallest shape.
func solve(more ...string) result {
	return invoke("", append([]string{"plan", "solve", "--shape", "small", "--prompt", "Once upon a time", "--slo-ttft", "60s", "--slo-tpot", "1s"}, more...)...)
}

// quietEnv is that of a command that says nothing.
func quietEnv() *cli.Env {
	return &cli.Env{Globals: cli.Globals{Prefix: schemas.DefaultPrefix}, Stdio: cli.Stdio{Out: io.Discard, Err: io.Discard}, Log: slog.New(slog.DiscardHandler)}
}
