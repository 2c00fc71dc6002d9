package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits of a log: what goes wrong with one message goes wrong with thousands.
const (
	// linesAWindow is how many records of one kind pass in a window.
	linesAWindow = 10
	logWindow    = time.Minute
	// maxKinds bounds what is kept of kinds; those beyond it count as one.
	maxKinds = 1000
)

// LimitLog returns a handler that passes on few records of one kind, a level
// and a message, in a minute. How many it kept back is told by the first record
// of any kind after that minute. Records below Info pass: who wants those wants
// all of them.
func LimitLog(next slog.Handler) slog.Handler {
	return &limitedLog{next: next, kinds: &logKinds{windows: map[logKind]*window{}}}
}

// limitedLog is one of the handlers that share a count: those that slog makes
// of one for attributes and groups.
type limitedLog struct {
	next  slog.Handler
	kinds *logKinds
}

type logKind struct {
	level   slog.Level
	message string
}

// Enabled implements slog.Handler.
func (l *limitedLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (l *limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedLog{l.next.WithAttrs(attrs), l.kinds}
}

// WithGroup implements slog.Handler.
func (l *limitedLog) WithGroup(name string) slog.Handler {
	return &limitedLog{l.next.WithGroup(name), l.kinds}
}

// Handle implements slog.Handler.
func (l *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return l.next.Handle(ctx, r)
	}
	now := time.Now()
	pass, over := l.kinds.admit(logKind{r.Level, r.Message}, l.next, now)
	for _, w := range over {
		r := slog.NewRecord(now, w.kind.level, w.kind.message, 0)
		r.AddAttrs(slog.Int("kept_back", w.kept), slog.Duration("within", logWindow))
		_ = w.next.Handle(ctx, r)
	}
	if !pass {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// logKinds counts records by kind.
type logKinds struct {
	mu      sync.Mutex
	windows map[logKind]*window
	swept   time.Time
}

// window is a minute of one kind's records; it begins with the first.
type window struct {
	kind         logKind
	began        time.Time
	passed, kept int
	next         slog.Handler // that of the record kept back last
}

// admit reports whether a record passes, and returns the windows that are over and
// in which records were kept back.
func (k *logKinds) admit(kind logKind, next slog.Handler, now time.Time) (pass bool, over []*window) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.swept) >= time.Second || len(k.windows) >= maxKinds {
		over, k.swept = k.sweep(now), now
	}
	w := k.window(kind, now)
	if w.passed < linesAWindow {
		w.passed++
		return true, over
	}
	w.kept++
	w.next = next
	return false, over
}

// sweep takes out the windows that are over; k.mu is held.
func (k *logKinds) sweep(now time.Time) (untold []*window) {
	for kind, w := range k.windows {
		if now.Sub(w.began) < logWindow {
			continue
		}
		delete(k.windows, kind)
		if w.kept > 0 {
			untold = append(untold, w)
		}
	}
	return untold
}

// window finds a kind's window or begins one; k.mu is held.
func (k *logKinds) window(kind logKind, now time.Time) *window {
	if k.windows[kind] == nil && len(k.windows) >= maxKinds {
		kind = logKind{kind.level, "of one of many other kinds"}
	}
	w := k.windows[kind]
	if w == nil {
		w = &window{kind: kind, began: now}
		k.windows[kind] = w
	}
	return w
}
