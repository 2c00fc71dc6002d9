package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// The disk of the log's leader is full, until the server is started again with
// room on it.
func TestClusterDiskFull(t *testing.T) {
	c := newCluster(t, fleet.Settings{Store: smallDisk(t), JetStream: "max_file_store: 10GB"})
	s := c.leader()
	filler := filepath.Join(s.Store(), "filler")
	c.batch("nats-disk-full", func() { fill(t, filler) })
	c.replayed("nats-disk-full")
	c.during("room-again", func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
		s.Kill()
		s.Start()
	})
}

// smallDisk makes a small file system for each server's store.
func smallDisk(t *testing.T) func(int) string {
	return func(int) string {
		dir := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=48m", "switchyard", dir).CombinedOutput(); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
}

// fill writes a file until there is no room for more.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // all that matters is that there is no room
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Somebody subscribes to everything on each server and reads none of it.
func TestClusterSlowReader(t *testing.T) {
	c := newCluster(t, fleet.Settings{})
	c.during("slow-readers", func() {
		for _, s := range c.Servers {
			readNothing(t, s.Addr)
		}
	})
}

func readNothing(t *testing.T, addr string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB > 1\r\n"); err != nil {
		t.Fatal(err)
	}
}
