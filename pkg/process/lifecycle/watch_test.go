package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// A file is read when it has changed, also by a link that leads elsewhere now and back to the same
// size; what cannot be used is told once.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "one")
	write(filepath.Join(dir, "b"), "two")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	reads, wrong := 0, error(nil)
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	w := NewWatch("the thing", func() error { reads++; return wrong }, link)
	look := func(want int) {
		t.Helper()
		w.Look(log, false)
		if w.Look(log, false); reads != want {
			t.Errorf("read %d times, want %d", reads, want)
		}
	}
	look(0)
	write(path, "six")
	look(1)
	if err := errors.Join(os.Remove(link), os.Symlink(filepath.Join(dir, "b"), link)); err != nil {
		t.Fatal(err)
	}
	look(2)
	wrong = errors.New("broken")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	look(3)
	if n := strings.Count(logged.String(), "stays as it was"); n != 1 {
		t.Errorf("told %d times: %s", n, logged.String())
	}
	if w.Look(log, true); reads != 4 {
		t.Errorf("asked to, it was not read")
	}
}

// SIGHUP has files read that have not changed.
func TestHangup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var reads atomic.Int32
	path := filepath.Join(t.TempDir(), "a")
	w := NewWatch("the thing", func() error { reads.Add(1); return nil }, path)
	running.Go(func() { FollowFiles(ctx, slog.New(slog.DiscardHandler), w) })
	defer running.Wait()
	defer cancel()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// From then on the signal does not end this process.
	testkit.Eventually(t, "a change is read", func() bool { return reads.Load() == 1 })
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is read at SIGHUP", func() bool { return reads.Load() == 2 })
}
