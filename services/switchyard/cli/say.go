package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// jsonFormat is the --log-format with which each line on stderr is a JSON object, whoever writes
// it: logs, libraries' logs, what commands say beside their results, and errors. What the Go
// runtime writes itself when the process crashes is not.
const jsonFormat = "json"

// jsonLines returns what writes JSON objects whatever --log-level is: they are no logs, but what
// a command says.
func jsonLines(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: readable}))
}

// Say tells people text on stderr, or, where logs are JSON, a message with its parts.
func (e *Env) Say(text, message string, parts ...any) {
	if e.LogFormat == jsonFormat {
		jsonLines(e.Err).Info(message, parts...)
		return
	}
	_, _ = fmt.Fprint(e.Err, text) // nowhere to complain
}

// Progress returns a line on stderr, which is quiet where nobody looks, or where logs are JSON.
func (e *Env) Progress() *terminal.Progress {
	if e.LogFormat == jsonFormat {
		return terminal.NewProgress(nil)
	}
	return terminal.NewProgress(e.Err)
}

// logFormat returns what --log-format is, or is meant to be, known before anything is parsed:
// an error of parsing is told in that form, too.
func logFormat(args []string) string {
	if format, ok := flagValue(args, "--log-format"); ok {
		return format
	}
	if format, ok := os.LookupEnv("SWITCHYARD_LOG_FORMAT"); ok {
		return format
	}
	if file, err := loadConfig(configPath(args)); err == nil && file != nil {
		if e, ok := file.entries["log-format"]; ok {
			return e.node.Value
		}
	}
	return ""
}

// report tells an error and returns its exit code.
func report(w io.Writer, format string, err error) int {
	code := ExitCode(err)
	if err == nil || errors.Is(err, ErrQuiet) || errors.Is(err, syscall.EPIPE) { // a reader that went away has enough
		return code
	}
	err = withCure(err)
	if format == jsonFormat {
		jsonLines(w).Error("switchyard ends", "error", err.Error(), "exit_code", code)
	} else {
		_, _ = fmt.Fprintf(w, "switchyard: %v\n", err) // nowhere left to complain
	}
	return code
}

// panicked is the exit code of a Go program that panics.
const panicked = 2

// exitByPanic ends a run by kong's --help. A panic of this goroutine is told in the form
// of the logs; others end the process.
func exitByPanic(w io.Writer, format string, code *int) {
	switch r := recover().(type) {
	case nil:
	case exitNow:
		*code = int(r)
	default:
		if format != jsonFormat {
			panic(r)
		}
		jsonLines(w).Error("switchyard panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*code = panicked
	}
}
