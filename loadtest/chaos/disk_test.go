package chaos

import (
	"io"
	"net"
	"testing"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// The disk of the log's leader is full, until the server is started again with
// room on it.
func TestClusterDiskFull(t *testing.T) {
	wantsCluster(t)
	var disks []*fleet.Disk
	c := newCluster(t, fleet.Settings{JetStream: "max_file_store: 10GB", Store: func(int) string {
		d, err := fleet.NewDisk(t)
		if err != nil {
			t.Skip(err)
		}
		disks = append(disks, d)
		return d.Dir()
	}})
	s := c.leader()
	disk := disks[c.index(s)]
	c.batch("nats-disk-full", func() { noError(t, disk.Fill()) })
	c.replayed("nats-disk-full")
	c.during("room-again", func() {
		noError(t, disk.Free())
		s.Kill()
		s.Start()
	})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
