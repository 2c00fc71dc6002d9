package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// After a write that failed nats-server stores nothing more in that stream, and does not answer who
// sent it, also when there is room again: only a start opens its files anew. So the folder is tried until it
// takes writes, and then the server is started again in this process.

const (
	// roomTried is what a folder must take before it counts as writable.
	roomTried = 4 << 20
	// folderPoll is how often a folder is tried that took no write.
	folderPoll = time.Second
	// restartPause bounds the pause before the server is started again, which doubles while writes fail again within
	// calmAfter: a probe may fit where its streams do not.
	restartPause, calmAfter = time.Minute, 2 * time.Minute
)

// folder is where the server keeps its streams, and whether it can.
type folder struct {
	dir     string
	log     *slog.Logger
	failed  atomic.Pointer[error] // nil: it takes writes
	noticed chan struct{}         // has room for one: a write has failed
	quit    chan struct{}
	once    sync.Once
	done    sync.WaitGroup
}

func newFolder(s Settings) *folder {
	f := &folder{dir: s.StoreDir, log: s.Logger, noticed: make(chan struct{}, 1), quit: make(chan struct{})}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f
}

// isFailedWrite reports whether a line of the server's log says that it could not write.
func isFailedWrite(line string) bool {
	return strings.Contains(line, "ritical write error: ") || strings.Contains(line, "failed to store a msg on stream") ||
		strings.Contains(line, "no space left on device") || strings.Contains(line, "permission denied while writing")
}

// hears takes in an error of the server's log, and reports whether it was one of a write that failed.
// The first one is told.
func (f *folder) hears(line string) bool {
	if !isFailedWrite(line) {
		return false
	}
	why := errors.New(line[strings.LastIndex(line, ": ")+len(": "):])
	if f.failed.CompareAndSwap(nil, &why) {
		f.log.Error("the NATS server of this process cannot write to its folder: nothing is accepted or answered until it can; make room there, and all goes on by itself",
			"folder", f.dir, "error", line)
		f.noticed <- struct{}{}
	}
	return true
}

// Ready returns nil, or that the server cannot write to its folder, and what to do.
func (srv *Server) Ready() error {
	why := srv.folder.failed.Load()
	if why == nil {
		return nil
	}
	return &UnwritableError{srv.folder.dir, *why}
}

// UnwritableError says that the folder of a server takes no writes.
type UnwritableError struct {
	Folder string
	Err    error
}

// Error says what to do.
func (e *UnwritableError) Error() string {
	return fmt.Sprintf("the NATS server of this process cannot write to %s: %v: make room there, and all goes on by itself", e.Folder, e.Err)
}

// Unwrap is the reason.
func (e *UnwritableError) Unwrap() error { return e.Err }

// StoresNothing says what kind of error it is, to those that know no folder.
func (e *UnwritableError) StoresNothing() {}

// watch starts the server again when a folder that took no write does so.
func (f *folder) watch(restart func() error) {
	pause, last := folderPoll, time.Time{}
	for {
		select {
		case <-f.quit:
			return
		case <-f.noticed:
		}
		since := time.Now()
		if pause = min(2*pause, restartPause); since.Sub(last) > calmAfter {
			pause = folderPoll
		}
		if !f.mended(pause, restart) {
			return
		}
		last = time.Now()
		f.failed.Store(nil)
		f.log.Warn("the NATS server's folder takes writes again; the server was started anew", "folder", f.dir, "after", time.Since(since).Round(time.Millisecond))
	}
}

// mended reports whether the server could be started again, after a pause, before it was to stop.
func (f *folder) mended(pause time.Duration, restart func() error) bool {
	for {
		select {
		case <-f.quit:
			return false
		case <-time.After(pause):
		}
		pause = folderPoll
		if tryWriting(f.dir, roomTried) != nil {
			continue
		}
		err := restart()
		if err == nil {
			return true
		}
		f.log.Error("the NATS server of this process cannot be started again; trying on", "folder", f.dir, "error", err)
	}
}

// stop ends watch, and waits for it.
func (f *folder) stop() {
	f.once.Do(func() { close(f.quit) })
	f.done.Wait()
}

// tryWriting writes so many bytes to a folder, and removes them.
func tryWriting(dir string, bytes int) error {
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return err
	}
	_, err = probe.Write(make([]byte, bytes))
	return errors.Join(err, probe.Close(), os.Remove(probe.Name()))
}
