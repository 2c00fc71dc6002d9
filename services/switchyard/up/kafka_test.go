package up

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stored reports whether a sample comes to a broker, and what the writer says is in its way.
// A way that is barred once is given up: the broker listens, or has refused.
func stored(t *testing.T, c kafka.Config) (bool, string) {
	t.Helper()
	var sent atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	said := &firstWarning{heard: cancel}
	w, err := kafka.NewWriter(kafka.WriterSettings{Config: c, Logger: slog.New(said), Count: func(outcome string, n int) {
		if outcome == kafka.Sent {
			sent.Add(int64(n))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Send(&pb.LoadSample{})
	err = w.Close(ctx)
	return err == nil && sent.Load() == 1, said.text()
}

// firstWarning keeps the first warning of a log, and tells when it comes.
type firstWarning struct {
	mu    sync.Mutex
	first string
	heard func()
}

func (f *firstWarning) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

// Enabled implements slog.Handler.
func (f *firstWarning) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (f *firstWarning) Handle(_ context.Context, r slog.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == "" {
		f.first = r.Message
		r.Attrs(func(a slog.Attr) bool { f.first += " " + a.String(); return true })
		f.heard()
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (f *firstWarning) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup implements slog.Handler.
func (f *firstWarning) WithGroup(string) slog.Handler { return f }

// Nobody outside reaches the broker of up, unless a port is asked for; with users it asks
// for the password that is in their folder.
func TestKafkaListen(t *testing.T) {
	t.Parallel()
	closed := startUp(t, func(c *Cmd) { c.Scaling = "static" })
	if at := closed.KafkaAddr(); at != "" {
		t.Errorf("it is reached at %s", at)
	}
	open := startUp(t, func(c *Cmd) { c.Scaling, c.KafkaListen = "static", testkit.FreeAddr(t) })
	if ok, said := stored(t, kafka.Config{Brokers: []string{open.KafkaAddr()}}); !ok {
		t.Errorf("the port is not served: %s", said)
	}
	dir := filepath.Join(t.TempDir(), "auth")
	guarded := startUp(t, func(c *Cmd) {
		c.Scaling, c.KafkaListen, c.Auth = "static", testkit.FreeAddr(t), AuthFlag{On: true, Dir: dir}
	})
	known := kafka.Config{
		Brokers: []string{guarded.KafkaAddr()}, SASL: "scram-sha-256", User: credentials.KafkaUser, PasswordFile: guarded.Users().KafkaPasswordFile(),
	}
	if ok, said := stored(t, known); !ok {
		t.Errorf("the password does not let in: %s", said)
	}
	said := kafkaGreeting(guarded.KafkaAddr(), guarded.Users())
	if want := "--kafka " + known.Brokers[0] + " --kafka-sasl scram-sha-256 --kafka-user switchyard --kafka-password-file " + known.PasswordFile; !strings.Contains(said, want) {
		t.Errorf("greeted with %q, want %q", said, want)
	}
	if ok, said := stored(t, kafka.Config{Brokers: known.Brokers}); ok || said == "" {
		t.Errorf("without a password: stored %v, %q", ok, said)
	}
	known.PasswordFile = filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(known.PasswordFile, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, said := stored(t, known); ok || !strings.Contains(strings.ToLower(said), "sasl") {
		t.Errorf("with a wrong password: stored %v, %q", ok, said)
	}
}
