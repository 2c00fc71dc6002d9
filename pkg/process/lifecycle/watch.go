package lifecycle

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// watchEvery is how often files are looked at.
	watchEvery = 250 * time.Millisecond
	// mostLooked bounds what is read of a file to see whether it has changed.
	mostLooked = 16 << 20
)

// Watch is something that follows from files, and that a running process takes anew when they change. What
// cannot be used changes nothing, and is logged.
type Watch struct {
	// What it is, for the log.
	What string
	// Files are those that it follows from. Names are followed to what they lead to, as links do.
	Files []string
	// Read takes the files' contents, or says why they cannot be used and leaves all as it was.
	Read func() error

	seen [sha256.Size]byte // the contents as they were looked at last
}

// NewWatch returns a Watch of files whose contents are in use.
func NewWatch(what string, read func() error, files ...string) *Watch {
	w := &Watch{What: what, Files: files, Read: read}
	w.seen = w.contents()
	return w
}

// contents returns a hash of what the files hold. Times and sizes would not tell two writes of one moment
// apart.
func (w *Watch) contents() (sum [sha256.Size]byte) {
	all := sha256.New()
	for _, name := range w.Files {
		file, err := os.Open(name)
		if err == nil {
			_, err = io.Copy(all, io.LimitReader(file, mostLooked))
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			_, _ = io.WriteString(all, err.Error()) // a hash takes everything
		}
		_, _ = all.Write([]byte{0})
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// Look reads the files if they have changed, or if it is asked to read them in any case.
func (w *Watch) Look(log *slog.Logger, asked bool) {
	now := w.contents()
	if now == w.seen && !asked {
		return
	}
	w.seen = now
	if err := w.Read(); err != nil {
		log.Error(w.What+" cannot be used and stays as it was", "error", err)
		return
	}
	log.Info(w.What + " was read again")
}

// FollowFiles looks several times a second at what follows from files, and reads all at SIGHUP, until ctx ends.
func FollowFiles(ctx context.Context, log *slog.Logger, all ...*Watch) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		hup := false
		select {
		case <-ctx.Done():
			return
		case <-asked:
			hup = true
		case <-tick.C:
		}
		for _, w := range all {
			w.Look(log, hup)
		}
	}
}
