package natsserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func TestStartInProcess(t *testing.T) {
	s, err := Start(Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	nc, err := nats.Connect("", nats.Timeout(testkit.Patience), nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if s.URL() != "" || nc.MaxPayload() != DefaultMaxPayload {
		t.Errorf("URL %q, max payload %d", s.URL(), nc.MaxPayload())
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	// More than any machine has: reservations must not fail.
	for _, storage := range []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage} {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "S" + storage.String(), Subjects: []string{storage.String()}, Storage: storage, MaxBytes: 1 << 46,
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := Start(Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Shutdown()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		s    Settings
		says string
	}{
		"port taken":    {Settings{StoreDir: t.TempDir(), Listen: strings.TrimPrefix(taken.URL(), "nats://")}, "another server"},
		"bad address":   {Settings{StoreDir: t.TempDir(), Listen: "4222"}, "HOST:PORT"},
		"bad port":      {Settings{StoreDir: t.TempDir(), Listen: ":99999"}, `the address to listen on is ":99999": its port must be a number from 0`},
		"public":        {Settings{StoreDir: t.TempDir(), Listen: "0.0.0.0:0"}, "--insecure"},
		"no folder":     {Settings{}, "data directory"},
		"not a folder":  {Settings{StoreDir: filepath.Join(file, "x")}, "data directory"},
		"huge messages": {Settings{StoreDir: t.TempDir(), MaxPayload: 1 << 30}, "max_payload"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Start(c.s)
			if err == nil {
				s.Shutdown()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
			if (name == "public") != errors.Is(err, ErrPublicListen) {
				t.Errorf("wrong type: %v", err)
			}
		})
	}
}

func TestShutdownTwiceAndRestart(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Settings{StoreDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.URL(), "nats://")
	s.Shutdown()
	s.Shutdown()
	again, err := Start(Settings{StoreDir: dir, Listen: address})
	if err != nil {
		t.Fatal(err)
	}
	again.Shutdown()
}

// A folder has one server at a time, and is free when that one is gone.
func TestOneServerAFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(Settings{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Start(Settings{StoreDir: dir})
	if err == nil {
		second.Shutdown()
		first.Shutdown()
		t.Fatal("two servers use one folder")
	}
	host, _ := os.Hostname()
	for _, want := range []string{dir, fmt.Sprintf("process %d on %s, since 2", os.Getpid(), host)} {
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	first.Shutdown()
	again, err := Start(Settings{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	again.Shutdown()
}

// A process that is killed leaves no lock behind.
func TestKilledServerLeavesNoLock(t *testing.T) {
	const variable = "NATSSERVER_TEST_HOLD"
	if dir := os.Getenv(variable); dir != "" {
		if _, err := lockStore(dir); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the test is gone
		return
	}
	dir := t.TempDir()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledServerLeavesNoLock$")
	holder.Env = append(os.Environ(), variable+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the holder says %q: %v", line, err)
	}
	_, err = lockStore(dir)
	if want := fmt.Sprintf("process %d", holder.Process.Pid); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v does not say %q", err, want)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lock, err := lockStore(dir) // while it still dies
	_ = holder.Wait()           // killed is how it is meant to end
	if err != nil {
		t.Fatal(err)
	}
	lock.release()
}
