package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// While up runs, quotas and the log's level follow the configuration; what is broken there changes
// nothing, and what counts after a restart alone is named.
func TestConfigurationFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts all services")
	}
	file := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("up: {tenant: ['*:tokens=600000']}\n")
	says, code := &sharedText{}, make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := []string{"up", "--config", file, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--threads", "1"}
	go func() {
		code <- runWaiting(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: says}, patient)
	}()
	url := ""
	testkit.Eventually(t, "up is ready", func() bool {
		if at := regexp.MustCompile(`curl (http://\S+)`).FindStringSubmatch(says.String()); at != nil {
			url = at[1]
		}
		return url != ""
	})
	limit := func() string {
		r, err := http.Post(url, "application/json", strings.NewReader(`{"model":"demo","prompt":"Once","max_tokens":2}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		return r.Header.Get("X-Ratelimit-Limit-Tokens")
	}
	testkit.Eventually(t, "the limit is told", func() bool { return limit() == "600000" })
	write("up: {tenant: ['*:tokens=1200000'], hosts: 2}\nlog-level: debug\n")
	testkit.Eventually(t, "the new limit counts", func() bool { return limit() == "1200000" })
	testkit.Eventually(t, "what needs a restart is named", func() bool { return strings.Contains(says.String(), "flags=--hosts") })
	broken := func() int {
		return strings.Count(says.String(), "the configuration cannot be used and stays as it was")
	}
	for i, text := range []string{"up: {tenant: ['*:tokens=0']}\n", "up: [", "colour: red\n"} {
		write(text)
		testkit.Eventually(t, "a broken configuration is told", func() bool { return broken() > i })
		if got := limit(); got != "1200000" {
			t.Errorf("%q: the limit is %q", text, got)
		}
	}
	write("up: {tenant: ['*:requests=6000']}\n")
	testkit.Eventually(t, "the limit of tokens is gone", func() bool { return limit() == "" })
	before := strings.Count(says.String(), "the configuration was read again")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is read at SIGHUP", func() bool { return strings.Count(says.String(), "the configuration was read again") > before })
	cancel()
	if got := <-code; got != cli.ExitDone {
		t.Errorf("up ended with %d\n%s", got, says)
	}
}
