//go:build unix

package natsserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
)

// lines is a log that may be written to and read at once.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// A server whose folder takes no write says so at once, with one line, and stores again when it
// does, with all that it had acknowledged.
func TestFolderTakesNoWrites(t *testing.T) {
	var log lines
	s, err := Start(Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	url := s.URL()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	lift := testkit.BoundFiles(t, 1<<20)
	acked := uint64(0)
	for body := make([]byte, 100<<10); s.Ready() == nil; {
		storing, cancel := context.WithTimeout(ctx, time.Second)
		if ack, err := js.Publish(storing, "s", body); err == nil {
			acked = ack.Sequence
		}
		cancel()
		if ctx.Err() != nil {
			t.Fatal("a write that failed was not seen")
		}
	}
	if err := s.Ready(); !strings.Contains(err.Error(), s.folder.dir) || !strings.Contains(err.Error(), "file too large: make room there") {
		t.Errorf("it says: %v", err)
	}
	lift()
	for s.Ready() != nil {
		if ctx.Err() != nil {
			t.Fatal("not ready again:", s.Ready())
		}
		time.Sleep(time.Millisecond) // polled
	}
	for {
		storing, cancel := context.WithTimeout(ctx, time.Second)
		ack, err := js.Publish(storing, "s", []byte("more"))
		cancel()
		if err == nil {
			if ack.Sequence <= acked {
				t.Errorf("stored as %d; %d were acknowledged", ack.Sequence, acked)
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if s.URL() != url || log.count("level=ERROR") != 1 || log.count("takes writes again") != 1 {
		t.Errorf("at %s, before at %s; it logged:\n%s", s.URL(), url, log.text.String())
	}
}

// A folder that takes a probe, and not what the server writes, does not have it started again each second.
func TestFolderThatFailsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(Settings{StoreDir: t.TempDir()})
		began := time.Now()
		var restarts []time.Duration
		fail := func() { f.hears("Critical write error: write 1.blk: no space left on device") }
		fail()
		f.done.Go(func() {
			f.watch(func() error {
				restarts = append(restarts, time.Since(began).Round(time.Second))
				time.AfterFunc(time.Millisecond, fail)
				return nil
			})
		})
		time.Sleep(4 * time.Minute)
		f.stop()
		if got := fmt.Sprint(restarts); got != "[1s 3s 7s 15s 31s 1m3s 2m3s 3m3s]" {
			t.Errorf("started again after %s", got)
		}
	})
}
