package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
)

func logged(b *bytes.Buffer, text string) int { return strings.Count(b.String(), text) }

func TestLimitLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(LimitLog(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		flood := func() {
			for i := range 1000 {
				log.Warn("refused", "message", i)
				log.With("service", "gate").WithGroup("g").Warn("refused", "message", i)
				log.Error("refused")
				log.Debug("refused, in detail")
			}
			log.Info("ready")
		}
		flood()
		for text, want := range map[string]int{
			"level=WARN msg=refused": linesAWindow, "level=ERROR msg=refused": linesAWindow,
			"refused, in detail": 1000, "msg=ready": 1, "kept_back": 0,
		} {
			if n := logged(&out, text); n != want {
				t.Errorf("%d lines %q, want %d", n, text, want)
			}
		}
		out.Reset()
		time.Sleep(logWindow)
		log.Info("still here")
		for text, want := range map[string]int{"WARN msg=refused service=gate g.kept_back=1990 ": 1, "ERROR msg=refused kept_back=990 ": 1, "\n": 3} {
			if n := logged(&out, text); n != want {
				t.Errorf("%d lines %q, want %d, in %s", n, text, want, out.String())
			}
		}
		out.Reset()
		flood()
		if n := logged(&out, "level=WARN msg=refused"); n != linesAWindow {
			t.Errorf("%d lines in the second window", n)
		}
	})
}

// What libraries say by themselves comes through the log.
func TestLogLibraries(t *testing.T) {
	before, flags := slog.Default(), log.Flags()
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
		log.SetOutput(os.Stderr)
	})
	var out bytes.Buffer
	LogLibraries(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	log.Print("http: a handler panicked") //nolint:forbidigo // as a library does
	otel.Handle(errors.New("nobody takes traces"))
	var said []string
	for line := range strings.Lines(out.String()) {
		var r struct{ Msg, Error string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		said = append(said, r.Msg+" "+r.Error)
	}
	for i, want := range []string{"http: a handler panicked", "nobody takes traces"} {
		if i >= len(said) || !strings.Contains(said[i], want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// Messages made of what others send neither fill the memory nor the log.
func TestLimitLogKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		handler := LimitLog(slog.NewTextHandler(&out, nil))
		log := slog.New(handler)
		for round := range 3 {
			for i := range 3 * maxKinds {
				log.Warn(fmt.Sprintf("round %d message %d", round, i))
			}
			if l, ok := handler.(*limitedLog); !ok || len(l.kinds.windows) > maxKinds+1 {
				t.Errorf("%d kinds are kept", len(l.kinds.windows))
			}
			time.Sleep(2 * logWindow)
		}
		if n := logged(&out, "msg="); n > 3*(maxKinds+linesAWindow+1) {
			t.Errorf("%d lines", n)
		}
	})
}
