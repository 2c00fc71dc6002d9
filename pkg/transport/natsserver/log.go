package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// logAdapter turns the server's log into slog's. Notices are left out: a
// server inside another program has nothing to announce.
type logAdapter struct {
	out    *slog.Logger
	folder *folder // hears of writes that fail, in the log's place
	first  atomic.Pointer[string]
}

func newLogAdapter(out *slog.Logger, f *folder) *logAdapter {
	if out == nil {
		out = slog.New(slog.DiscardHandler)
	}
	return &logAdapter{out: out.With("part", "nats-server"), folder: f}
}

// fatal returns the first fatal error; the server only logs those.
func (l *logAdapter) fatal() error {
	if text := l.first.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// Fatalf keeps the first text: it is why the server does not start.
func (l *logAdapter) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.first.CompareAndSwap(nil, &text)
}

// Errorf logs an error; of writes that fail the folder tells the first.
func (l *logAdapter) Errorf(format string, v ...any) {
	if !l.folder.hears(fmt.Sprintf(format, v...)) {
		l.log(slog.LevelError, format, v)
	}
}

// Warnf logs a warning, which a folder that may not be written to is for the server.
func (l *logAdapter) Warnf(format string, v ...any) {
	if !l.folder.hears(fmt.Sprintf(format, v...)) {
		l.log(slog.LevelWarn, format, v)
	}
}

// Noticef drops what the server says of its normal work.
func (l *logAdapter) Noticef(string, ...any) {}

func (l *logAdapter) Debugf(string, ...any) {}

func (l *logAdapter) Tracef(string, ...any) {}

func (l *logAdapter) log(level slog.Level, format string, v []any) {
	if ctx := context.Background(); l.out.Enabled(ctx, level) {
		l.out.Log(ctx, level, fmt.Sprintf(format, v...))
	}
}
