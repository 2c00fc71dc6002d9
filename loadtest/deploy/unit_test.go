package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// unit is a container as a process of this machine.
type unit struct {
	name, program string
	args          []string
	env           map[string]string
	// places are what stands elsewhere in a container: paths, names of hosts with their
	// ports, addresses to listen on. Each text is followed by what it is here.
	places []string
}

// here is a text of a container as it is to be on this machine.
func (u unit) here(text string) string { return strings.NewReplacer(u.places...).Replace(text) }

// succeeds runs the unit to its end, and reports whether it exits with 0.
func (u unit) succeeds(t *testing.T) bool {
	t.Helper()
	c := exec.CommandContext(t.Context(), u.program, u.args...)
	c.Env = os.Environ()
	for name, value := range u.env {
		c.Env = append(c.Env, name+"="+u.here(value))
	}
	return c.Run() == nil
}

// start runs the unit until the test ends.
func (u unit) start(t *testing.T) *fleet.Process {
	t.Helper()
	var args, env []string
	for _, arg := range u.args {
		args = append(args, u.here(arg))
	}
	for name, value := range u.env {
		env = append(env, name+"="+u.here(value))
	}
	return fleet.LaunchIn(t, env, u.name, u.program, args...)
}

// awaitPage waits until a page of a process says that it is well.
func awaitPage(t *testing.T, p *fleet.Process, url string) {
	t.Helper()
	testkit.Eventually(t, url+" of "+p.Tail(), func() bool { return p.Ended() || pageOf(t.Context(), url) == http.StatusOK })
	if p.Ended() {
		t.Fatalf("it has ended: %s", p.Tail())
	}
}

// pageOf is the status of a page; 0 without an answer.
func pageOf(ctx context.Context, url string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body) // only the status is of interest
	_ = response.Body.Close()
	return response.StatusCode
}

// run runs a program to its end, and returns what it has printed.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	var out, wrong bytes.Buffer
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &wrong
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, wrong.String())
	}
	return out.String()
}

// write puts files into a folder of their own, each as it is to be here.
func (u unit) write(t *testing.T, files map[string][]byte, dir string) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(u.here(string(data))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wantsAnswer sends a prompt and wants the same text as always.
func wantsAnswer(t *testing.T, program string, flags ...string) {
	t.Helper()
	args := append([]string{"prompt", "--max-tokens", "8"}, flags...)
	if got := run(t, t.TempDir(), program, append(args, "Once upon a time")...); !strings.Contains(got, "there was a little girl") {
		t.Errorf("the answer is %q", got)
	}
}

func localhost(port string) string { return fmt.Sprintf("127.0.0.1:%s", port) }
