package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// wantJSON wants each line to be a JSON object with a level and a message, and returns the messages.
func wantJSON(t *testing.T, text string) (messages []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r struct {
			Level, Msg string
			Error      any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Level == "" || r.Msg == "" {
			t.Errorf("%q: %v", line, err)
		}
		messages = append(messages, strings.TrimSpace(fmt.Sprint(r.Msg, " ", r.Error)))
	}
	return messages
}

// What commands say on stderr is JSON where logs are, however that is set and whatever
// goes wrong.
func TestSaidInJSON(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "switchyard.yaml")
	if err := os.WriteFile(file, []byte("log-format: json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startFake(t)
	const flag = "--log-format=json"
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no such flag", []string{"version", "--fast", flag}, cli.ExitUsage, "unknown flag --fast"},
		{"no such flag, and two words", []string{"version", "--log-format", "json", "--fast"}, cli.ExitUsage, "unknown flag --fast"},
		{"no such flag, and a file", []string{"version", "--config", file, "--fast"}, cli.ExitUsage, "unknown flag --fast"},
		{"not UTF-8", []string{"prompt", "a\xff", flag}, cli.ExitUsage, "is not UTF-8"},
		{"a wrong value", []string{"up", "--hosts", "0", flag}, cli.ExitUsage, "--hosts is 0"},
		{"no server", []string{"prompt", "hi", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "200ms", flag}, cli.ExitNoServer, "no connection"},
		{"statistics", []string{"prompt", "--nats", f.url, "a b", "--stats", flag}, cli.ExitDone, "answered"},
		{"an error at the end", []string{"prompt", "--nats", f.url, "fail now", flag}, cli.ExitFailed, "deadline_exceeded: too slow"},
		{"a demo", []string{"demo", "--max-tokens", "2", flag}, cli.ExitDone, "ready"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := invoke("", tc.args...)
			if said := wantJSON(t, got.Err); got.Code != tc.code || !strings.Contains(strings.Join(said, "\n"), tc.want) {
				t.Errorf("%+v, want code %d and %q", got, tc.code, tc.want)
			}
		})
	}
	t.Run("by the environment", func(t *testing.T) {
		t.Setenv("SWITCHYARD_LOG_FORMAT", "json")
		for _, args := range [][]string{nil, {"fly"}} {
			if got := invoke("", args...); got.Code != cli.ExitUsage || got.Err == "" {
				t.Errorf("%+v", got)
			} else {
				wantJSON(t, got.Err)
			}
		}
	})
}

// processArgs has the arguments of the process that TestProcessInJSON starts.
const processArgs = "TEST_PROCESS_ARGS"

// A whole process writes JSON alone: its own words and those of its libraries, here of
// OpenTelemetry about its settings and about a collector that is not there, of Kafka, and
// of a server that goes away.
func TestProcessInJSON(t *testing.T) {
	if args := os.Getenv(processArgs); args != "" {
		os.Exit(run(strings.Split(args, " "), cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})) //nolint:forbidigo // it is main here
	}
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	shared := " --otlp-endpoint http://127.0.0.1:1 --kafka 127.0.0.1:1 --log-format json"
	for name, tc := range testkit.SomeOf(map[string]struct {
		args  string
		after string // a message, behind which the process is asked to end
		also  string // what OpenTelemetry says, once something is traced
	}{
		"up":     {"up --listen 127.0.0.1:0 --http off --scaling moeless --device paced --profile a6000-phi-3.5-moe --metrics-addr 127.0.0.1:0" + shared, "ready", "unsupported sampler"},
		"expert": {"expert --nats " + srv.URL() + shared, "ready", "unsupported sampler"},
		"gate":   {"gate --nats nats://127.0.0.1:1" + shared, "no NATS server answers yet", ""},
	}) {
		t.Run(name, func(t *testing.T) {
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessInJSON$")
			process.Env = append(os.Environ(), processArgs+"="+tc.args, "OTEL_TRACES_SAMPLER=soon")
			stderr, err := process.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			var said []string
			lines := bufio.NewScanner(stderr)
			for asked := false; lines.Scan(); {
				said = append(said, wantJSON(t, lines.Text())...)
				if !asked && strings.HasPrefix(said[len(said)-1], tc.after) {
					asked = true
					if err := process.Process.Signal(syscall.SIGTERM); err != nil {
						t.Error(err)
					}
				}
			}
			if err := process.Wait(); err != nil {
				t.Errorf("%v: %q", err, said)
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, tc.after) || !strings.Contains(all, tc.also) {
				t.Errorf("it said %s", all)
			}
		})
	}
}
