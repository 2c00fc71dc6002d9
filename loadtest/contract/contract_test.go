// Package contract holds the built program to what outsiders rely on: what commands take and
// print, the fields of their JSON, and how they exit. testdata/commands.json is the table.
//
//	make freeze
//
// It knows the program alone, and nothing of how it is made. What a row asks for changes with a
// version only; fields may be added.
package contract

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

const (
	asked = "SWITCHYARD_FREEZE"
	root  = "../.."
	made  = root + "/.cache/golden/*/" // by "make golden"
)

// Exit codes that nobody may change.
const (
	exitDone        = 0
	exitInterrupted = 130
)

// row is a command and what is wanted of it.
type row struct {
	Name   string            `json:"name"`
	Args   []string          `json:"args"`
	Served bool              `json:"served"` // a server with the demo model answers it
	Stdin  []json.RawMessage `json:"stdin"`  // a line each
	Code   int               `json:"code"`
	Fields []string          `json:"fields"` // each is in a line of stdout or more: "a[].b" is b of each element of a
	Out    string            `json:"out"`    // what stdout contains
	Err    string            `json:"err"`    // what stderr contains
	SHA256 string            `json:"sha256"` // of all of stdout
}

func table(t *testing.T) (rows []row) {
	t.Helper()
	data, err := os.ReadFile("testdata/commands.json")
	if err != nil {
		t.Fatal(err)
	}
	from := json.NewDecoder(bytes.NewReader(data))
	from.DisallowUnknownFields()
	if err := from.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// program is the built one. Without SWITCHYARD_FREEZE the test is skipped: what lies in bin may
// be of other sources.
func program(t *testing.T) string {
	t.Helper()
	if os.Getenv(asked) == "" {
		t.Skip(asked + " is not set; make freeze builds the program and sets it")
	}
	path, err := filepath.Abs(filepath.Join(root, "bin/switchyard"))
	if err != nil {
		t.Fatal(err)
	}
	if named := os.Getenv("SWITCHYARD_BIN"); named != "" {
		path = named
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the program is missing: %v; run make build, or name it in SWITCHYARD_BIN", err)
	}
	return path
}

// result is what a command has done.
type result struct {
	out, err string
	code     int
}

func run(t *testing.T, stdin, program string, args ...string) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var out, stderr strings.Builder
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, asked+"=") }) // it knows all of SWITCHYARD_
	c.Dir, c.Stdin, c.Stdout, c.Stderr = t.TempDir(), strings.NewReader(stdin), &out, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", c, err)
	}
	return result{out.String(), stderr.String(), c.ProcessState.ExitCode()}
}

func TestCommands(t *testing.T) {
	program := program(t)
	places := strings.NewReplacer("DEMO", abs(t, filepath.Join(root, "models/demo")), "OUT", filepath.Join(t.TempDir(), "out"), "TRACE", trace(t))
	served := serve(t, program)
	for _, r := range table(t) {
		t.Run(r.Name, func(t *testing.T) {
			var stdin strings.Builder
			for _, line := range r.Stdin {
				fmt.Fprintf(&stdin, "%s\n", line)
			}
			var args []string
			for _, a := range r.Args {
				if name, ok := strings.CutPrefix(a, "GOLDEN/"); ok {
					a = golden(t, name)
				}
				args = append(args, places.Replace(a))
			}
			if r.Served {
				args = append(args, "--nats", served)
			}
			r.judge(t, run(t, stdin.String(), program, args...))
		})
	}
	t.Run("rerun", func(t *testing.T) { rerun(t, program, served) })
	t.Run("interrupted", func(t *testing.T) { interrupt(t, program, served) })
}

// What an operator is shown stays few.
func TestCommandBudgets(t *testing.T) {
	program := program(t)
	commands := regexp.MustCompile(`(?m)^  [a-z]`).FindAllString(run(t, "", program, "--help").out, -1)
	flag := regexp.MustCompile(`(?m)^ {2,8}(-[a-z], )?--[a-z\[]`) // not a line of text that begins with one
	count := func(help string) int { return len(flag.FindAllString(help, -1)) }
	suites := 0
	for _, s := range []string{"moeless", "elastic", "fmoe", "brownout", "remoe", "bo-ods"} {
		own, _, found := strings.Cut(run(t, "", program, "arena", s, "--help").out, "\nConnection, logs and configuration:")
		if !found || count(own) == 0 {
			t.Errorf("the suite %s has no help", s)
		}
		suites = max(suites, count(own))
	}
	testkit.Budgets(t, filepath.Join(root, "internal/imports/testdata/budgets.txt"), map[string]int{
		"subcommands": len(commands), "flags-of-up": count(run(t, "", program, "up", "--help").out), "flags-of-a-suite": suites,
	})
}

func (r *row) judge(t *testing.T, got result) {
	t.Helper()
	if got.code != r.Code {
		t.Errorf("exit code %d, want %d", got.code, r.Code)
	}
	if !strings.Contains(got.out, r.Out) || !strings.Contains(got.err, r.Err) {
		t.Errorf("want %q on stdout and %q on stderr", r.Out, r.Err)
	}
	if r.Code != exitDone && got.err == "" {
		t.Error("no error is said on stderr")
	}
	if sum := sha256.Sum256([]byte(got.out)); r.SHA256 != "" && hex.EncodeToString(sum[:]) != r.SHA256 {
		t.Errorf("stdout has the SHA-256 %x, not %s", sum, r.SHA256)
	}
	if err := haveFields(got.out, r.Fields); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("stdout:\n%.2000s\nstderr:\n%.2000s", got.out, got.err)
	}
}

// haveFields wants every line to be an object, and each field in one or more.
func haveFields(out string, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	missing := slices.Clone(fields)
	for line := range strings.Lines(out) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return fmt.Errorf("%.80q is no JSON object: %w", line, err)
		}
		missing = slices.DeleteFunc(missing, func(f string) bool { return has(object, f) })
	}
	if len(missing) > 0 {
		return fmt.Errorf("no line has the fields %q", missing)
	}
	return nil
}

// has finds a field of an object: "a[].b" is b of each element of a, of which there must be some.
func has(object map[string]any, field string) bool {
	list, inner, nested := strings.Cut(field, "[].")
	value, ok := object[list]
	if !nested || !ok {
		return ok
	}
	elements, _ := value.([]any)
	return len(elements) > 0 && !slices.ContainsFunc(elements, func(e any) bool {
		o, _ := e.(map[string]any)
		_, ok := o[inner]
		return !ok
	})
}

// golden is a whole checkpoint that "make golden" has made: the newest, as older ones stay.
func golden(t *testing.T, name string) string {
	t.Helper()
	dirs, err := filepath.Glob(made + name)
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden checkpoint %s in %s: run make golden", name, made)
	}
	age := func(dir string) int64 {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	return abs(t, slices.MaxFunc(dirs, func(a, b string) int { return cmp.Compare(age(a), age(b)) }))
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// trace writes twenty requests a second, for four seconds, as Azure publishes its traces.
func trace(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	for i := range 80 {
		fmt.Fprintf(&text, "2023-11-16 18:15:%02d.%02d00000,%d,%d\n", i/20, i%20*5, 1000+370*i%400, 5+13*i%40)
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts all services until the test ends, and returns where their NATS server is.
func serve(t *testing.T, program string) (url string) {
	t.Helper()
	addr := testkit.FreeAddr(t)
	c := exec.CommandContext(t.Context(), program, "up", "--listen", addr, "--http", "off", "--scaling", "none")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	var stderr strings.Builder
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Wait(); c.ProcessState.ExitCode() != exitInterrupted && c.ProcessState.ExitCode() != exitDone {
			t.Errorf("up: %v\n%s", err, &stderr)
		}
	})
	testkit.Eventually(t, "services answer", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil && run(t, "", program, "prompt", "--nats", "nats://"+addr, "--max-tokens", "1", "Hi").code == exitDone
	})
	return "nats://" + addr
}

// A request that was answered is computed again with the same tokens.
func rerun(t *testing.T, program, url string) {
	answer := run(t, "", program, "prompt", "--nats", url, "--json", "--max-tokens", "8", "Once upon a time")
	var chunk struct {
		ID     string `json:"request_id"`
		Finish string `json:"finish_reason"`
		Usage  struct {
			Tokens int `json:"completion_tokens"`
		}
	}
	lines := strings.Split(strings.TrimSpace(answer.out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &chunk); err != nil || chunk.Finish != "length" || chunk.Usage.Tokens != 8 {
		t.Fatalf("the last chunk is %s: %v", lines[len(lines)-1], err)
	}
	want := row{Out: "identical, 8 tokens"}
	want.judge(t, run(t, "", program, "rerun", "--nats", url, chunk.ID))
	missing := row{Code: 1, Err: "nothing"}
	missing.judge(t, run(t, "", program, "rerun", "--nats", url, "nothing"))
}

// What is interrupted says so by its exit code.
func interrupt(t *testing.T, program, url string) {
	c := exec.CommandContext(t.Context(), program, "prompt", "--nats", url, "--ignore-eos", "--max-tokens", "500", "Once upon a time")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadByte(); err != nil {
		t.Error(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // its code is judged
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}

// The table itself: a field that is missing, or no object, is found.
func TestHaveFields(t *testing.T) {
	const line = `{"a":1,"b":[{"c":null}],"d":[]}`
	for fields, want := range map[string]bool{"a": true, "a b[].c": true, "e": false, "b[].e": false, "d[].c": false} {
		if err := haveFields(line+"\n", strings.Fields(fields)); (err == nil) != want {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if haveFields("text\n", []string{"a"}) == nil || haveFields("", []string{"a"}) == nil {
		t.Error("what is no object passes")
	}
	if len(table(t)) < 50 {
		t.Error("the table has lost rows")
	}
}
