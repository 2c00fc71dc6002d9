package proxies

import (
	"bufio"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func answer(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		_, _ = c.Write(append(lines.Bytes(), '\n')) // the other side sees it
	}
	_ = c.Close() // nothing follows
}

// way is a connection through a link.
type way struct {
	*Link
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, server string) *way {
	t.Helper()
	l, err := New("test", server)
	if err != nil {
		t.Fatal(err)
	}
	w := &way{Link: l, t: t}
	w.again()
	t.Cleanup(func() { _ = w.conn.Close(); l.Close() })
	return w
}

func (w *way) again() {
	w.t.Helper()
	var err error
	if w.conn, err = (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.proxies[0].Listen); err != nil {
		w.t.Fatal(err)
	}
}

// says sends a line, and returns what reading the answer brings within a time.
func (w *way) says(within time.Duration) error {
	w.t.Helper()
	if _, err := w.conn.Write([]byte("hello\n")); err != nil {
		return err
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := bufio.NewReader(w.conn).ReadString('\n')
	return err
}

const (
	soon = 2 * time.Minute // a bound, for machines that are busy
	late = 200 * time.Millisecond
)

func TestFaults(t *testing.T) {
	server := echo(t)
	for _, c := range []struct {
		kind   schedule.Kind
		passes bool
	}{
		{schedule.Latency, true}, {schedule.Bandwidth, true}, {schedule.Vanish, true},
		{schedule.Reset, false}, {schedule.Partition, false},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			w := dial(t, server)
			if err := w.says(soon); err != nil {
				t.Fatal(err)
			}
			if err := w.Spoil(c.kind, time.Second); err != nil {
				t.Fatal(err)
			}
			within := soon
			if c.kind == schedule.Partition {
				within = late // it only has to come to nothing
			}
			if err := w.says(within); (err == nil) != c.passes {
				t.Errorf("while it is spoilt: %v", err)
			} else if c.kind == schedule.Partition && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection does not seem open: %v", err)
			}
			if w.Heal(); !c.passes { // its connection has ended
				_ = w.conn.Close()
				w.again()
			}
			if err := w.says(soon); err != nil {
				t.Errorf("when it is healed: %v", err)
			}
		})
	}
}

func TestNoFaultOfConnections(t *testing.T) {
	if err := dial(t, echo(t)).Spoil(schedule.Kill, time.Second); err == nil {
		t.Error("a process was killed by a proxy")
	}
}
